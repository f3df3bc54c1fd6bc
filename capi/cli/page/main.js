// SPDX-License-Identifier: MIT OR Apache-2.0
// Puts the page together: a section for each subject, in it a panel for each run.

// The moment that is looked at, of one run or of several that have the same events.
class Moment {
  constructor(value, last) {
    this.value = value;
    this.last = last;
    this.listeners = [];
  }

  set(value) {
    this.value = Math.min(Math.max(Math.round(value), 0), this.last);
    for (const listener of this.listeners) listener();
  }
}

function section(id, heading, note, ...children) {
  return element("section", {id, "aria-labelledby": id + "-heading"}, element("h2", {id: id + "-heading"}, heading),
    note ? element("p", {class: "note"}, note) : null, ...children);
}

function panels(runs, make) {
  return element("div", {class: "panels"}, ...runs.map((run, i) => element("div", {class: "panel"},
    runs.length > 1 ? element("h3", {}, run.facts.title) : null, make(run, i))));
}

// What tells the runs of a page apart.
function setTitles(runs) {
  const isSame = (key) => runs.every((run) => run.facts[key] === runs[0].facts[key]);
  for (const run of runs) {
    const {facts} = run;
    const parts = isSame("name") && runs.length > 1 ? [] : [facts.name];
    if (runs.length > 1 && !isSame("config")) parts.push(facts.config || "default options");
    facts.title = parts.join(", ") || facts.name;
  }
}

function namesOf(runs) {
  const titles = runs.map((run) => run.facts.title).join(" and ");
  const {name} = runs[0].facts;
  return titles.includes(name) ? titles : `${name}: ${titles}`;
}

function factsOf(run) {
  const {facts} = run;
  return [["program", facts.command || facts.workload], ["recording", facts.file], ["recorded by", facts.recorder],
    ["options", facts.config || "defaults"],
    ["decisions", facts.policy === "serving" ? "the serving policy" : `PyTorch ${facts.release}`],
    ["device", `${facts.devices > 1 ? countText(facts.devices) + " of " : ""}${bytesText(facts.capacity)}`],
    ["events", countText(facts.events) + (run.seconds ? ` in ${secondsText(run.seconds[run.lastMoment])}` : "")]];
}

function factsTable(runs) {
  const columns = [["", "text"], ...runs.map((run) => [run.facts.title, "long"])];
  const facts = runs.map(factsOf);
  const rows = facts[0].map(([name], i) => [name, ...facts.map((list) => list[i][1] || "–")]);
  return table("What was replayed", columns, rows.filter((row) => row.slice(1).some((cell) => cell !== "–")));
}

function linkedMoments(runs) {
  const start = (run) => new Moment(run.facts.peaks.requested.event, run.lastMoment);
  const isLinked = runs.length > 1 && runs.every((run) => run.facts.events === runs[0].facts.events && run.facts.name === runs[0].facts.name);
  const first = start(runs[0]);
  return runs.map((run, i) => isLinked || i === 0 ? first : start(run));
}

function sections(runs, moments, state, document_) {
  const charts = runs.map((run, i) => new MemoryChart(run, state, moments[i]));
  const maps = runs.map((run, i) => new BlockMap(run, moments[i]));
  const flames = runs.map((run, i) => new FlameGraph(run, moments[i]));
  state.listeners.push(() => charts.forEach((chart) => chart.draw()));
  const made = [
    section("memory", "Memory over time", "Drag over a part to see it closer, click for the moment below. Of many events each point shows the lowest and the highest.",
      chartControls(state), panels(runs, (run, i) => charts[i].panel)),
    section("figures", "Figures", "", element("div", {class: "figures"}, figuresTable(runs), factsTable(runs))),
    section("moment", "Segments and blocks", "All memory that is reserved at the moment: a bar is a segment, what is coloured in it is a block.",
      panels(runs, (run, i) => maps[i].panel)),
    section("flame", "Who holds it", "", panels(runs, (run, i) => element("div", {}, flames[i].panel, holdersTable(run)))),
    section("reasons", "Why cached memory could not be used", "For the request that the most memory was obtained for although as much was cached; the tables below say it for each.",
      panels(runs, (run, i) => fragmentedPanel(run, moments[i]))),
    section("misses", "The costliest misses", "", panels(runs, (run, i) => missesPanel(run, moments[i]))),
    section("failures", "Failures", "", panels(runs, (run, i) => failuresPanel(run, moments[i]))),
  ];
  const answers = document_.tune ? answersOf(document_.tune) : [];
  if (document_.tune) made.unshift(section("tune", "What each option string needs", "", ...tunePanels(document_.tune, answers, runs)));
  const views = [...charts, ...maps, ...flames, ...answers.map((answer) => answer.chart)];
  return {made, charts, answers, redraw: () => views.forEach((view) => view.draw()), later: () => maps.forEach((map) => map.show())};
}

function setUpTheme(redraw) {
  const select = document.getElementById("theme");
  const apply = () => {
    document.documentElement.dataset.theme = select.value;
    redraw();
  };
  select.addEventListener("change", apply);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

// Behind the next frame: the chart is seen before what takes longer.
function afterPaint(act) {
  requestAnimationFrame(() => setTimeout(act));
}

async function start() {
  const document_ = JSON.parse(document.getElementById("document").textContent);
  const runs = document_.runs.map((facts, i) => new Run(facts, i));
  setTitles(runs);
  const names = namesOf(runs);
  document.title = `${names}: memory report`;
  document.getElementById("subtitle").textContent = names;
  document.getElementById("generator").textContent = `Written by ${document_.generator}.`;
  await Promise.all(runs.map((run) => run.load()));
  const moments = linkedMoments(runs);
  const state = new ChartState(runs);
  const {made, charts, answers, redraw, later} = sections(runs, moments, state, document_);
  document.body.classList.toggle("pair", runs.length > 1);
  document.getElementById("main").replaceChildren(...made);
  setUpTheme(redraw);
  afterPaint(() => {
    const painted = performance.now();
    later();
    afterPaint(() => document.documentElement.dataset.ready = String(Math.round(painted)));
  });
  // For tests, and for those who ask the page by its console.
  window.report = {document: document_, runs, moments, state, charts, answers, momentSums};
}

start().catch((error) => {
  document.getElementById("main").replaceChildren(element("p", {class: "problem", role: "alert"},
    `The page's data cannot be read: ${error.message}`));
  throw error;
});
