// SPDX-License-Identifier: MIT OR Apache-2.0
// The flame graph of what is live: by labels or stacks, else by stream, pool and size.

const FLAME_ROW = 20;
const FLAME_HINT = "Point at a bar, or go to it by Tab, to see what it holds; a click or Enter goes closer.";
const SIZE_CLASSES = [[2 ** 10, "up to 1 KiB"], [2 ** 16, "up to 64 KiB"], [2 ** 20, "up to 1 MiB"], [10 * 2 ** 20, "up to 10 MiB"],
  [100 * 2 ** 20, "up to 100 MiB"], [Infinity, "above 100 MiB"]];

// The names that a block is counted under, the outermost first.
const FLAME_PATHS = {
  context: (run, kind) => {
    const frames = run.frames(kind.context);
    return frames.length > 0 ? frames : [run.labelText(kind.context)];
  },
  owner: (run, kind) => {
    const owner = run.owner(kind.owner);
    const path = [`stream ${owner.stream}`, owner.pool === "default" ? "default pools" : `pool ${owner.pool}`,
      SIZE_CLASSES.find(([most]) => kind.requested <= most)[1], `requests of ${bytesText(kind.requested)}`];
    return run.facts.devices > 1 ? [`device ${owner.device}`, ...path] : path;
  },
};

function flameTree(run, moment, way) {
  const root = {name: "all that is live", value: 0, blocks: 0, children: new Map()};
  for (let i = 0; i < run.blockBegin.length && run.blockBegin[i] <= moment; i++) {
    if (run.blockCompleted[i] <= moment) continue;
    const kind = run.kinds[run.blockKind[i]];
    let node = root;
    node.value += kind.requested;
    node.blocks++;
    for (const name of FLAME_PATHS[way](run, kind)) {
      if (!node.children.has(name)) node.children.set(name, {name, value: 0, blocks: 0, children: new Map()});
      node = node.children.get(name);
      node.value += kind.requested;
      node.blocks++;
    }
  }
  return plainTree(root);
}

function plainTree(node) {
  return {name: node.name, value: node.value, blocks: node.blocks,
    children: Array.from(node.children.values(), plainTree).sort((a, b) => b.value - a.value)};
}

function treeDepth(node) {
  return 1 + Math.max(0, ...node.children.map(treeDepth));
}

class FlameGraph {
  constructor(run, moment) {
    this.run = run;
    this.moment = moment;
    this.way = run.hasContexts() ? "context" : "owner";
    this.when = "peak";
    this.graph = element("div", {class: "flame", role: "group", "aria-label": `Flame graph of ${run.facts.title}`});
    this.details = element("p", {class: "details", role: "status", "aria-live": "polite"});
    this.title = element("p", {class: "moment"});
    this.panel = element("div", {class: "flame-panel"}, this.controls(), this.title, this.graph, this.details);
    new ResizeObserver(() => {
      if (this.graph.clientWidth !== this.width) this.draw();
    }).observe(this.graph);
    moment.listeners.push(() => {
      if (this.when === "moment") this.draw();
    });
  }

  controls() {
    const ways = [["owner", "stream, pool and size"]];
    if (this.run.hasContexts()) ways.unshift(["context", this.run.isOfStacks() ? "stack" : "label"]);
    return element("div", {class: "controls"},
      choice("By", ways, this.way, (way) => {
        this.way = way;
        this.draw();
      }),
      choice("at", [["peak", "the peak of requested"], ["moment", "the chosen moment"]], this.when, (when) => {
        this.when = when;
        this.draw();
      }),
      element("button", {type: "button", onclick: () => this.chart?.resetZoom()}, "All of it"));
  }

  draw() {
    this.width = this.graph.clientWidth;
    if (this.width === 0) return;
    const moment = this.when === "peak" ? this.run.facts.peaks.requested.event : this.moment.value;
    const tree = flameTree(this.run, moment, this.way);
    this.title.textContent = `${exactBytes(tree.value)} requested in ${countText(tree.blocks)} blocks, ${this.run.momentText(moment)}`;
    this.graph.replaceChildren();
    if (tree.value === 0) return;
    this.chart = flamegraph.default().width(this.width).height(treeDepth(tree) * FLAME_ROW + 4).cellHeight(FLAME_ROW)
      .inverted(true).selfValue(false).minFrameSize(1).transitionDuration(0).sort((a, b) => b.value - a.value)
      .label((node) => this.describe(node, tree)).setColorMapper((node) => this.colour(node))
      .onClick(() => this.zoomed(tree));
    this.details.textContent = FLAME_HINT;
    d3.select(this.graph).datum(tree).call(this.chart);
    this.settle();
    this.makeReachable(tree);
  }

  // The library lets new bars grow to their width, which their texts have from the beginning.
  settle() {
    d3.select(this.graph).selectAll("g.frame").each(function () {
      d3.select(this).select("rect").interrupt().attr("width", this.querySelector("foreignObject").getAttribute("width"));
    });
  }

  zoomed(tree) {
    this.settle();
    this.makeReachable(tree);
  }

  describe(node, tree) {
    return `${node.data.name}: ${exactBytes(node.data.value)}, ${percentText(node.data.value, tree.value)}, ` +
      `${countText(node.data.blocks)} block${node.data.blocks === 1 ? "" : "s"}`;
  }

  // One colour for a name, wherever it stands.
  colour(node) {
    if (node.depth === 0) return styleColour("flame-root");
    let hash = 0;
    for (const letter of node.data.name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    return seriesColour(hash);
  }

  // The library's bars are for the mouse only.
  makeReachable(tree) {
    for (const bar of this.graph.querySelectorAll("g.frame")) {
      const node = d3.select(bar).datum();
      bar.setAttribute("tabindex", "0");
      bar.setAttribute("role", "button");
      bar.setAttribute("aria-label", this.describe(node, tree));
      bar.onfocus = bar.onmouseenter = () => this.details.textContent = this.describe(node, tree);
      bar.onkeydown = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        bar.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      };
    }
  }
}
