// SPDX-License-Identifier: MIT OR Apache-2.0
// The chart of memory over time.

const CHART_PARTS = 600;
const CHART_HEIGHT = 320;
const LEAST_VIEW = 4;  // events

const TOTAL_LINES = [
  {name: "reserved", title: "Reserved"},
  {name: "allocated", title: "Allocated (blocks)"},
  {name: "requested", title: "Requested"},
  {name: "pending", title: "Pending frees"},
];

// What the charts of a page have in common. View: the first and the last event that is shown.
class ChartState {
  constructor(runs) {
    this.runs = runs;
    this.unit = "event";
    this.grouping = "";
    this.measure = "requested";
    this.hidden = new Set(runs.some((run) => run.most("pending") > 0) ? [] : ["pending"]);
    this.view = [0, Math.max(...runs.map((run) => run.lastMoment))];
    this.listeners = [];
  }

  whole() {
    return [0, Math.max(...this.runs.map((run) => run.lastMoment))];
  }

  set(changes) {
    Object.assign(this, changes);
    for (const listener of this.listeners) listener();
  }

  setView(from, to) {
    const [first, last] = this.whole();
    const width = Math.round(Math.min(Math.max(to - from, LEAST_VIEW), last - first));
    const begin = Math.min(Math.max(Math.round(from), first), last - width);
    this.set({view: [begin, begin + width]});
  }

  zoom(factor, around) {
    const [from, to] = this.view;
    this.setView(around - (around - from) * factor, around + (to - around) * factor);
  }
}

class MemoryChart {
  // moment: {value, set(value), listeners}.
  constructor(run, state, moment) {
    this.run = run;
    this.state = state;
    this.moment = moment;
    this.groupNames = new Map();  // by grouping and measure
    this.box = element("div", {class: "chart", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": `Memory over time of ${run.facts.title}; arrow keys choose a moment`,
      onkeydown: (event) => this.key(event)});
    this.legend = element("ul", {class: "legend", "aria-label": "Lines"});
    this.panel = element("div", {class: "memory-panel"}, this.box, this.legend);
    new ResizeObserver(() => this.draw()).observe(this.box);
    moment.listeners.push(() => this.plot?.redraw(false));
  }

  // ---- What is shown ----

  view() {
    const [from, to] = this.state.view;
    return [Math.min(from, this.run.lastMoment), Math.min(to, this.run.lastMoment)];
  }

  x(event) {
    return this.state.unit === "time" && this.run.seconds ? this.run.seconds[event] : event;
  }

  lines() {
    const shown = shownEvents(...this.view(), Math.min(CHART_PARTS, Math.max(50, this.box.clientWidth)));
    return this.state.grouping ? this.stack(shown) : this.totals(shown);
  }

  totals(shown) {
    const lines = TOTAL_LINES.map(({name, title}) => ({
      name, title, colour: styleColour(name), isHidden: this.state.hidden.has(name),
      values: this.state.hidden.has(name) ? [] : shownValues(this.run.totals[name], shown),
    }));
    return {events: shown.events, lines, bands: []};
  }

  // Each line is the sum of its group and of those below it.
  stack(shown) {
    const {measure, grouping} = this.state;
    const events = shownPeaks(this.run.totals[measure], shown);
    const groups = groupedValues(this.run, measure, grouping, events, this.groups());
    const sums = new Float64Array(events.length);
    const lines = groups.map((group, place) => {
      const colour = group.isRest ? styleColour("rest") : seriesColour(place);
      for (let i = 0; i < sums.length; i++) sums[i] += group.values[i];
      return {name: group.name, title: group.name, colour, fill: colour, values: Array.from(sums)};
    });
    const bands = lines.slice(1).map((_, i) => ({series: [i + 2, i + 1]}));
    return {events, lines, bands};
  }

  // The largest ones of the whole run, whatever part of it is shown: they keep their places and colours.
  groups() {
    const {measure, grouping} = this.state;
    const key = `${grouping} ${measure}`;
    if (!this.groupNames.has(key)) {
      const events = shownPeaks(this.run.totals[measure], shownEvents(0, this.run.lastMoment, CHART_PARTS));
      this.groupNames.set(key, largestGroups(this.run, measure, grouping, events));
    }
    return this.groupNames.get(key);
  }

  // ---- Drawing ----

  draw() {
    if (this.box.clientWidth === 0) return;
    const {events, lines, bands} = this.lines();
    const seen = lines.filter((line) => !line.isHidden);
    const data = [Array.from(events, (event) => this.x(event)), ...seen.map((line) => line.values)];
    this.plot?.destroy();
    this.plot = new uPlot(this.options(seen, bands), data, this.box);
    this.plot.root.setAttribute("aria-hidden", "true");  // the box has the name
    this.plot.over.addEventListener("click", (event) => this.clicked(event));
    this.drawLegend(lines);
  }

  options(lines, bands) {
    const axis = axisStyle();
    const [from, to] = this.state.view.map((event) => this.xOfAll(event));
    return {
      width: this.box.clientWidth,
      height: CHART_HEIGHT,
      legend: {show: false},
      bands,
      cursor: {drag: {x: true, y: false, setScale: false}, points: {show: false}},
      scales: {x: {time: false, range: [from, Math.max(to, from + 1e-6)]}, y: {range: [0, this.top()]}},
      axes: [
        {...axis, label: this.state.unit === "time" ? "seconds" : "events", size: 34,
          values: (_, marks) => marks.map((mark) => this.state.unit === "time" ? mark.toLocaleString("en-US") : countText(mark))},
        {...axis, size: 76, values: (_, marks) => marks.map((mark) => mark === 0 ? "0" : bytesText(mark)),
          incrs: byteSteps()},
      ],
      series: [{}, ...lines.map((line) => ({
        label: line.title, stroke: line.colour, fill: line.fill, width: line.fill ? 1 : 1.6,
        paths: uPlot.paths.stepped({align: 1}), points: {show: false},
      }))],
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        draw: [(plot) => this.drawMarks(plot)],
      },
    };
  }

  // Charts side by side have the same axes: the longest run, the highest memory.
  xOfAll(event) {
    if (this.state.unit !== "time") return event;
    const times = this.state.runs.map((run) => run.seconds ? run.seconds[Math.min(event, run.lastMoment)] : event);
    return event === this.state.view[0] ? Math.min(...times) : Math.max(...times);
  }

  top() {
    let most = 1;
    for (const run of this.state.runs) {
      const shown = this.state.grouping ? [this.state.measure]
        : TOTAL_LINES.map((line) => line.name).filter((name) => !this.state.hidden.has(name));
      for (const name of shown) most = Math.max(most, run.most(name));
    }
    return most * 1.06;
  }

  drawMarks(plot) {
    const {ctx} = plot;
    const mark = (event, colour, dash) => {
      const [from, to] = this.view();
      if (event < from || event > to) return;
      const x = Math.round(plot.valToPos(this.x(event), "x", true));
      ctx.save();
      ctx.strokeStyle = colour;
      ctx.lineWidth = dash ? 1 : 2;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(x, plot.bbox.top);
      ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
      ctx.stroke();
      ctx.restore();
    };
    for (const miss of this.run.facts.failures) mark(miss.event, styleColour("failure"), [2, 3]);
    mark(this.moment.value, styleColour("moment"), []);
  }

  drawLegend(lines) {
    const isStack = this.state.grouping !== "";
    this.legend.replaceChildren(...lines.map((line) => {
      const swatch = element("span", {class: "swatch"});
      swatch.style.background = line.colour;
      if (isStack) return element("li", {}, swatch, line.title);
      const box = element("input", {type: "checkbox", onchange: () => this.toggle(line.name)});
      box.checked = !line.isHidden;
      return element("li", {}, element("label", {}, box, swatch, line.title));
    }));
  }

  toggle(name) {
    const hidden = new Set(this.state.hidden);
    if (!hidden.delete(name)) hidden.add(name);
    const place = Array.from(this.legend.querySelectorAll("input")).indexOf(document.activeElement);
    this.state.set({hidden});
    if (place >= 0) this.legend.querySelectorAll("input")[place].focus();
  }

  // ---- Hands ----

  eventAt(x) {
    if (this.state.unit !== "time" || !this.run.seconds) return Math.round(x);
    let low = 0;
    let high = this.run.lastMoment;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.run.seconds[middle] <= x) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  clicked(event) {
    if (this.wasSelected) {
      this.wasSelected = false;
      return;
    }
    const left = event.clientX - this.plot.over.getBoundingClientRect().left;
    this.moment.set(this.eventAt(this.plot.posToVal(left, "x")));
  }

  selected(plot) {
    const {left, width} = plot.select;
    if (width < 4) return;
    this.wasSelected = true;
    const from = this.eventAt(plot.posToVal(left, "x"));
    const to = this.eventAt(plot.posToVal(left + width, "x"));
    setTimeout(() => this.state.setView(from, to));
  }

  key(event) {
    const [from, to] = this.view();
    const step = Math.max(1, Math.round((to - from) / 200)) * (event.shiftKey ? 10 : 1);
    const acts = {
      ArrowLeft: () => this.go(this.moment.value - step),
      ArrowRight: () => this.go(this.moment.value + step),
      Home: () => this.go(from),
      End: () => this.go(to),
      "+": () => this.state.zoom(0.5, this.moment.value),
      "=": () => this.state.zoom(0.5, this.moment.value),
      "-": () => this.state.zoom(2, this.moment.value),
      "0": () => this.state.setView(...this.state.whole()),
      p: () => this.go(this.run.facts.peaks.requested.event),
      r: () => this.go(this.run.facts.peaks.reserved.event),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // What is out of sight comes into it.
  go(moment) {
    const [from, to] = this.view();
    this.moment.set(moment);
    const value = this.moment.value;
    if (value < from || value > to) this.state.setView(value - (to - from) / 2, value + (to - from) / 2);
  }
}

function axisStyle() {
  const font = "12px system-ui, sans-serif";
  return {stroke: styleColour("text"), grid: {stroke: styleColour("grid")}, ticks: {stroke: styleColour("grid")}, font, labelFont: font,
    labelSize: 20};
}

// Steps of an axis of bytes: powers of 2, so that marks are round.
function byteSteps() {
  return Array.from({length: 46}, (_, i) => 2 ** i);
}

function chartControls(state) {
  const hasContexts = state.runs.some((run) => run.hasContexts());
  const groupings = [["", "sums"], ...(hasContexts ? [["label", "by " + state.runs[0].contextTitle()]] : []), ["stream", "by stream"],
    ["pool", "by pool"]];
  if (state.runs.some((run) => run.facts.devices > 1)) groupings.push(["device", "by device"]);
  const measure = choice("of", [["requested", "requested"], ["allocated", "allocated"], ["reserved", "reserved"]],
    state.measure, (value) => state.set({measure: value}));
  const measures = measure.querySelector("select");
  const update = () => {
    measure.hidden = state.grouping === "";
    measures.querySelector("[value=reserved]").disabled = state.grouping === "label";
  };
  const group = choice("Show", groupings, state.grouping, (grouping) => {
    if (grouping === "label" && state.measure === "reserved") measures.value = state.measure = "requested";
    state.set({grouping});
    update();
  });
  update();
  const units = state.runs.some((run) => run.seconds)
    ? choice("over", [["event", "events"], ["time", "time"]], state.unit, (unit) => state.set({unit})) : null;
  const button = (text, title, act) => element("button", {type: "button", title, onclick: act}, text);
  const middle = () => (state.view[0] + state.view[1]) / 2;
  return element("div", {class: "controls"}, group, measure, units,
    button("Closer", "half of what is shown", () => state.zoom(0.5, middle())),
    button("Further", "twice what is shown", () => state.zoom(2, middle())),
    button("Whole run", "all events", () => state.setView(...state.whole())));
}
