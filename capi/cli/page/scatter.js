// SPDX-License-Identifier: MIT OR Apache-2.0
// The chart of option strings: the smallest device of each, and what its driver calls cost.

const SCATTER_HEIGHT = 360;
const POINT_RADIUS = 5;  // pixels
const REACH = 24;  // a point is pointed at from so many pixels away
const WIDE = 8;  // an axis is logarithmic where its largest value is so many times the smallest

function isRecommended(tuned, row) {
  return tuned.recommended !== null && row.config === tuned.recommended.config && row.policy === tuned.recommended.policy;
}

function optionsText(row) {
  const options = row.config || "defaults";
  return row.policy ? `policy ${row.policy}${row.config ? ", " + options : ""}` : options;
}

// What the chart and the table have instead of a cost where requests fail.
function costText(row) {
  return row.out_of_memory > 0 ? `${countText(row.out_of_memory)} fail` : durationText(row.cost_ms * 1e6);
}

function scatterScale(values) {
  const least = Math.min(...values);
  const most = Math.max(...values);
  if (least > 0 && most > WIDE * least) {
    const room = (most / least) ** 0.08;
    return {distr: 3, range: [least / room, most * room]};
  }
  const room = Math.max(0.1 * (most - least), 0.02 * most) || 1;
  return {distr: 1, range: [Math.max(0, least - room), most + room]};
}

// 1, 2, 5, 10, 20, …
function logarithmicMarks(plot, axis, least, most) {
  const marks = [];
  for (let unit = 10 ** Math.floor(Math.log10(least)); unit <= most; unit *= 10)
    marks.push(...[1, 2, 5].map((step) => step * unit).filter((mark) => mark >= least && mark <= most));
  return marks;
}

class ScatterChart {
  // choose: is told the row that is pointed at, or null.
  constructor(tuned, name, choose) {
    this.tuned = tuned;
    this.rows = tuned.results.toSorted((a, b) => a.fits_bytes - b.fits_bytes);
    this.tell = choose;
    this.chosen = null;
    this.box = element("div", {class: "chart scatter", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": `Smallest device and cost of each string, ${name}; arrow keys go from one to the next`,
      onkeydown: (event) => this.key(event), onfocus: () => this.focused(), onblur: () => this.choose(null)});
    this.tip = element("div", {class: "tip", role: "status", "aria-live": "polite"});
    this.panel = element("div", {class: "scatter-panel"}, this.box, this.legend());
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // ---- Drawing ----

  draw() {
    if (this.box.clientWidth === 0) return;
    const x = this.rows.map((row) => mebibytes(row.fits_bytes));
    const y = this.rows.map((row) => row.cost_ms);
    const front = this.rows.map((row) => row.is_on_front ? row.cost_ms : null);
    this.plot?.destroy();
    this.plot = new uPlot(this.options(scatterScale(x), scatterScale(y)), [x, y, front], this.box);
    this.plot.root.setAttribute("aria-hidden", "true");  // the box has the name
    this.plot.over.addEventListener("mousemove", (event) => this.choose(this.rowAt(event)));
    this.plot.over.addEventListener("mouseleave", () => this.choose(null));
    this.box.append(this.tip);
    this.showTip();
  }

  options(x, y) {
    const style = axisStyle();
    const axis = (scale, label, size) => ({...style, label, size, values: (_, marks) => marks.map((mark) => countText(mark)),
      ...(scale.distr === 3 ? {splits: logarithmicMarks, filter: (_, marks) => marks} : {})});
    return {
      width: this.box.clientWidth,
      height: SCATTER_HEIGHT,
      legend: {show: false},
      cursor: {show: false},
      scales: {x: {time: false, ...x}, y},
      axes: [axis(x, "smallest device, MiB", 34),
        axis(y, `cost of the driver's calls on ${bytesText(this.tuned.device_bytes)}, ms`, 56)],
      // The cheapest string that a device of each size has room for: a stair between the points of the front.
      series: [{}, {paths: () => null, points: {show: false}},
        {stroke: styleColour("border"), width: 1.5, spanGaps: true, paths: uPlot.paths.stepped({align: 1}), points: {show: false}}],
      hooks: {draw: [(plot) => this.drawPoints(plot)]},
    };
  }

  place(plot, row, onCanvas) {
    return [plot.valToPos(mebibytes(row.fits_bytes), "x", onCanvas), plot.valToPos(row.cost_ms, "y", onCanvas)];
  }

  drawPoints(plot) {
    const {ctx} = plot;
    ctx.save();
    ctx.lineWidth = 2 * uPlot.pxRatio;
    // Those of the front lie above the others.
    for (const row of this.rows.toSorted((a, b) => a.is_on_front - b.is_on_front)) this.drawPoint(plot, row);
    for (const row of this.rows) this.drawName(plot, row);
    ctx.restore();
  }

  drawPoint(plot, row) {
    const {ctx} = plot;
    const [x, y] = this.place(plot, row, true);
    const radius = POINT_RADIUS * uPlot.pxRatio;
    ctx.strokeStyle = ctx.fillStyle = styleColour(this.colour(row));
    ctx.beginPath();
    if (row.out_of_memory > 0) {
      for (const side of [-1, 1]) {
        ctx.moveTo(x - radius, y - side * radius);
        ctx.lineTo(x + radius, y + side * radius);
      }
      ctx.stroke();
    } else {
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
      if (!row.is_on_front) ctx.fillStyle = styleColour("back");
      ctx.fill();
      ctx.stroke();
    }
    if (isRecommended(this.tuned, row)) this.drawRing(ctx, x, y, 2 * radius, "moment");
    if (row === this.chosen) this.drawRing(ctx, x, y, 1.6 * radius, "accent");
  }

  drawRing(ctx, x, y, radius, colour) {
    ctx.strokeStyle = styleColour(colour);
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.stroke();
  }

  // Those that a reader looks for have their names beside them, towards the middle of the chart.
  drawName(plot, row) {
    const name = isRecommended(this.tuned, row) ? "recommended" : !row.config && !row.policy ? "defaults" : "";
    const {ctx, bbox} = plot;
    const [x, y] = this.place(plot, row, true);
    const isLeft = x < bbox.left + bbox.width / 2;
    ctx.font = `${13 * uPlot.pxRatio}px system-ui, sans-serif`;
    ctx.fillStyle = styleColour("text");
    ctx.textAlign = isLeft ? "left" : "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(name, x + (isLeft ? 1 : -1) * 12 * uPlot.pxRatio, y - 4 * uPlot.pxRatio);
  }

  colour(row) {
    if (row.out_of_memory > 0) return "failure";
    return row.policy ? "pending" : "allocated";
  }

  // Of what the chart has.
  legend() {
    const kinds = [
      ["dot front", "on the Pareto front: no other string is better in both", (row) => row.is_on_front && row.out_of_memory === 0],
      ["dot", "not on it", (row) => !row.is_on_front && row.out_of_memory === 0],
      ["dot front policy", "a policy of cachalot's own", (row) => row.policy && row.out_of_memory === 0],
      ["dot front recommended", "recommended", (row) => isRecommended(this.tuned, row)],
      ["cross", "requests fail on the device asked for", (row) => row.out_of_memory > 0],
    ];
    return element("ul", {class: "legend", "aria-label": "Points"}, ...kinds.filter(([, , has]) => this.rows.some(has))
      .map(([mark, text]) => element("li", {}, element("span", {class: mark}), text)));
  }

  // ---- Hands ----

  choose(row) {
    if (row === this.chosen) return;
    this.chosen = row;
    this.plot?.redraw(false);
    this.showTip();
    this.tell(row);
  }

  showTip() {
    const row = this.chosen;
    this.tip.replaceChildren();
    if (row === null || !this.plot) return;
    const [x, y] = this.place(this.plot, row, false);
    const {offsetLeft, offsetTop, clientWidth} = this.plot.over;
    const isLeft = x < clientWidth / 2;
    this.tip.style.left = isLeft ? `${offsetLeft + x + 14}px` : "";
    this.tip.style.right = isLeft ? "" : `${this.box.clientWidth - offsetLeft - x + 14}px`;
    this.tip.style.top = `${offsetTop + y + 10}px`;
    this.tip.append(element("b", {}, optionsText(row)), element("br"), `${mebibytesText(row.fits_bytes)}, ${costText(row)}`);
  }

  rowAt(event) {
    const box = this.plot.over.getBoundingClientRect();
    let nearest = null;
    let least = REACH;
    for (const row of this.rows) {
      const [x, y] = this.place(this.plot, row, false);
      const distance = Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
      if (distance < least) [nearest, least] = [row, distance];
    }
    return nearest;
  }

  // Of a click the pointer has chosen already.
  focused() {
    if (this.chosen === null) this.choose(this.rows.find((row) => isRecommended(this.tuned, row)) ?? this.rows[0]);
  }

  key(event) {
    const at = this.rows.indexOf(this.chosen);
    const last = this.rows.length - 1;
    const places = {ArrowLeft: Math.max(at - 1, 0), ArrowRight: Math.min(at + 1, last), Home: 0, End: last};
    if (!(event.key in places) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.choose(this.rows[places[event.key]]);
  }
}
