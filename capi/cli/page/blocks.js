// SPDX-License-Identifier: MIT OR Apache-2.0
// The segments and blocks of a moment: each segment is a bar, in lines by stream and pool.

const BAR_HEIGHT = 14;
const LINE_HEIGHT = 18;
const HEADING_HEIGHT = 22;
const MOST_LINES = 400;
const LEAST_BAR = 3;
const MAP_PADDING = 6;
const BLOCKS_HINT = "Point at a block, or choose one by the arrow keys, to see what it is.";

// Lays bars out: as long as they are large, as many in a line as fit. Of more lines than MOST_LINES bars get shorter.
class MapLayout {
  constructor(segments, width) {
    this.width = width;
    this.largest = segments.reduce((most, segment) => Math.max(most, segment.size), 1);
    this.byOwner = new Map();
    for (const segment of segments) {
      if (!this.byOwner.has(segment.owner)) this.byOwner.set(segment.owner, []);
      this.byOwner.get(segment.owner).push(segment);
    }
    let bytesPerPixel = this.largest / width;
    do {
      this.lay(bytesPerPixel);
      bytesPerPixel *= 1.5;
    } while (this.lines > MOST_LINES && this.bytesPerPixel < this.largest / LEAST_BAR);
  }

  lay(bytesPerPixel) {
    this.bytesPerPixel = bytesPerPixel;
    this.bars = [];
    this.headings = [];
    this.lines = 0;
    let y = MAP_PADDING;
    for (const [owner, segments] of this.byOwner) {
      this.headings.push({owner, y, segments});
      y += HEADING_HEIGHT;
      let x = 0;
      for (const segment of segments) {
        const length = Math.min(this.width, Math.max(LEAST_BAR, segment.size / bytesPerPixel));
        if (x > 0 && x + length > this.width) {
          x = 0;
          y += LINE_HEIGHT;
          this.lines++;
        }
        this.bars.push({segment, x, y, length});
        x += length + 3;
      }
      y += LINE_HEIGHT;
      this.lines++;
    }
    this.height = y + MAP_PADDING;
  }

  // The block at a place, as the number of its bar and its own in there, or null.
  at(x, y) {
    const place = this.bars.findIndex((bar) => y >= bar.y && y < bar.y + BAR_HEIGHT && x >= bar.x && x < bar.x + bar.length);
    if (place < 0) return null;
    const bar = this.bars[place];
    const address = bar.segment.address + (x - bar.x) / bar.length * bar.segment.size;
    const index = bar.segment.blocks.findIndex((block) => address < block.address + block.size);
    return index < 0 ? null : {place, index};
  }
}

class BlockMap {
  constructor(run, moment) {
    this.run = run;
    this.moment = moment;
    this.colouring = "state";
    this.canvas = element("canvas", {class: "blocks", tabindex: "0", role: "application",
      "aria-label": "Segments and blocks; arrow keys choose a block",
      onmousemove: (event) => this.hover(event), onmouseleave: () => this.choose(null),
      onkeydown: (event) => this.key(event)});
    this.details = element("p", {class: "details", role: "status", "aria-live": "polite"});
    this.sums = element("div", {class: "sums"});
    this.title = element("p", {class: "moment"});
    this.slider = element("input", {type: "range", min: "0", max: String(run.lastMoment), step: "1",
      "aria-label": `Moment of ${run.facts.title}`, oninput: () => moment.set(Number(this.slider.value))});
    this.scroll = element("div", {class: "map"}, this.canvas);
    this.panel = element("div", {class: "moment-panel"}, this.title, this.jumps(), this.slider, this.controls(), this.scroll,
      this.details, this.sums);
    new ResizeObserver(() => this.draw()).observe(this.scroll);
    moment.listeners.push(() => this.schedule());
  }

  jumps() {
    const {peaks, failures} = this.run.facts;
    const jump = (text, event) => element("button", {type: "button", onclick: () => this.moment.set(event)}, text);
    return element("div", {class: "controls"}, jump("Peak of requested", peaks.requested.event),
      jump("Peak of reserved", peaks.reserved.event), ...failures.slice(0, 1).map((row) => jump("First failure", row.event)),
      jump("End", this.run.lastMoment));
  }

  controls() {
    const ways = [["state", "state"], ["size", "size of the block"]];
    if (this.run.hasContexts()) ways.push(["label", this.run.contextTitle()]);
    this.mapKey = element("span", {class: "map-key"});
    return element("div", {class: "controls"},
      choice("Colours by", ways, this.colouring, (way) => {
        this.colouring = way;
        this.draw();
      }), this.mapKey);
  }

  // Moments may change faster than they can be drawn.
  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.show();
    });
  }

  show() {
    const moment = this.moment.value;
    this.slider.value = String(moment);
    this.slider.setAttribute("aria-valuetext", this.run.momentText(moment));
    this.title.textContent = this.run.momentText(moment);
    this.segments = this.run.segments(moment);
    this.chosen = null;
    this.details.textContent = BLOCKS_HINT;
    this.showSums();
    this.draw();
  }

  // ---- Drawing ----

  draw() {
    const width = this.scroll.clientWidth - 2 * MAP_PADDING;
    if (!this.segments || width <= 0) return;
    this.layout = new MapLayout(this.segments, width);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = (width + 2 * MAP_PADDING) * scale;
    this.canvas.height = this.layout.height * scale;
    this.canvas.style.height = this.layout.height + "px";
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.translate(MAP_PADDING, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const heading of this.layout.headings) {
      context.fillStyle = styleColour("text");
      const bytes = heading.segments.reduce((sum, segment) => sum + segment.size, 0);
      const count = heading.segments.length;
      context.fillText(`${this.run.ownerText(heading.owner)}: ${bytesText(bytes)} in ${countText(count)} segment${count === 1 ? "" : "s"}`,
        0, heading.y + HEADING_HEIGHT / 2);
    }
    this.palette = this.makePalette();
    for (const bar of this.layout.bars) this.drawBar(context, bar);
    if (this.chosen) this.drawChosen(context);
    this.drawKey();
  }

  makePalette() {
    const state = {live: styleColour("live"), pending: styleColour("pending"), cached: styleColour("cached")};
    const names = new Map();
    return (block) => {
      if (block.state !== "live" || this.colouring === "state") return state[block.state];
      const name = this.colouring === "label" ? block.context : Math.floor(Math.log2(block.size)) / 2 | 0;
      if (!names.has(name)) names.set(name, seriesColour(this.colouring === "label" ? names.size : name));
      return names.get(name);
    };
  }

  drawBar(context, {segment, x, y, length}) {
    const scale = length / segment.size;
    context.fillStyle = styleColour("cached");
    context.fillRect(x, y, length, BAR_HEIGHT);
    for (const block of segment.blocks) {
      if (block.state === "cached") continue;
      const left = x + (block.address - segment.address) * scale;
      const width = block.size * scale;
      context.fillStyle = this.palette(block);
      context.fillRect(left, y, Math.max(width > 3 ? width - 1 : width, 0.5), BAR_HEIGHT);
    }
    context.strokeStyle = styleColour("border");
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, Math.max(1, length - 1), BAR_HEIGHT - 1);
  }

  drawChosen(context) {
    const {place, index} = this.chosen;
    const bar = this.layout.bars[place];
    const block = bar.segment.blocks[index];
    const scale = bar.length / bar.segment.size;
    const left = bar.x + (block.address - bar.segment.address) * scale;
    context.strokeStyle = styleColour("moment");
    context.lineWidth = 2;
    context.strokeRect(left, bar.y - 1, Math.max(3, block.size * scale), BAR_HEIGHT + 2);
  }

  drawKey() {
    const states = this.colouring === "state" ? ["live", "pending", "cached"] : ["pending", "cached"];
    this.mapKey.replaceChildren(...states.flatMap((state) => {
      const swatch = element("span", {class: "swatch"});
      swatch.style.background = styleColour(state);
      return [swatch, state === "pending" ? "freed, pending " : state + " "];
    }), this.colouring === "state" ? "" : "live: one colour each");
  }

  // ---- Choosing ----

  hover(event) {
    if (!this.layout) return;
    const box = this.canvas.getBoundingClientRect();
    this.choose(this.layout.at(event.clientX - box.left - MAP_PADDING, event.clientY - box.top));
  }

  choose(chosen) {
    if (chosen?.place === this.chosen?.place && chosen?.index === this.chosen?.index) return;
    this.chosen = chosen;
    this.details.textContent = chosen ? this.describe(chosen) : BLOCKS_HINT;
    this.draw();
  }

  describe({place, index}) {
    const {segment} = this.layout.bars[place];
    const block = segment.blocks[index];
    const where = `${addressText(block.address)}, ${exactBytes(block.size)}; ${this.run.ownerText(segment.owner)}; segment ` +
      `${addressText(segment.address)} of ${bytesText(segment.size)}${segment.isExpandable ? ", expandable" : ""}`;
    if (block.state === "cached") return `Cached: ${where}`;
    const label = block.context ? `; ${this.run.labelText(block.context)}` : "";
    const state = block.state === "live" ? "Live" : "Freed, pending";
    return `${state}: ${where}; requested ${exactBytes(block.requested)} at event ${countText(block.begin)}${label}`;
  }

  key(event) {
    if (!this.layout || this.layout.bars.length === 0) return;
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const last = this.layout.bars.length - 1;
    const ends = {Home: {place: 0, index: 0}, End: {place: last, index: this.layout.bars[last].segment.blocks.length - 1}};
    const move = moves[event.key];
    if (!move && !ends[event.key]) return;
    event.preventDefault();
    this.choose(ends[event.key] ?? (this.chosen ? this.moved(...move) : ends.Home));
    const {y} = this.layout.bars[this.chosen.place];
    this.scroll.scrollTop = Math.min(Math.max(this.scroll.scrollTop, y + LINE_HEIGHT - this.scroll.clientHeight), y - HEADING_HEIGHT);
  }

  // What lies beyond the first and the last block of a bar is that of the bar before and behind.
  moved(bars, blocks) {
    const all = this.layout.bars;
    const within = (number, count) => Math.min(Math.max(number, 0), count - 1);
    const count = (place) => all[place].segment.blocks.length;
    let {place} = this.chosen;
    let index = this.chosen.index + blocks;
    if (index < 0 && place > 0) index = count(--place) - 1;
    else if (index >= count(place) && place + 1 < all.length) [place, index] = [place + 1, 0];
    place = within(place + bars, all.length);
    return {place, index: within(index, count(place))};
  }

  // ---- Sums ----

  showSums() {
    const {all, byOwner} = momentSums(this.segments);
    const row = (name, sums) => [name, bytesText(sums.reserved), countText(sums.segments), bytesText(sums.live),
      countText(sums.liveBlocks), bytesText(sums.requested), bytesText(sums.pending), bytesText(sums.cached), bytesText(sums.largest)];
    const rows = Array.from(byOwner, ([owner, sums]) => ({owner, sums}))
      .sort((a, b) => b.sums.reserved - a.sums.reserved)
      .map(({owner, sums}) => row(this.run.ownerText(owner), sums));
    const columns = [["stream and pool", "text"], ["reserved", "number"], ["segments", "number"], ["live", "number"],
      ["live blocks", "number"], ["requested", "number"], ["pending", "number"], ["cached", "number"],
      ["largest cached block", "number"]];
    const made = table("Memory at this moment", columns, [row("all", all), ...rows]);
    made.querySelector("tbody tr").classList.add("all");
    for (const [name, value] of Object.entries(all)) made.dataset[name] = String(value);
    this.sums.replaceChildren(made);
  }
}
