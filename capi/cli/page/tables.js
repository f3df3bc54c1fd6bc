// SPDX-License-Identifier: MIT OR Apache-2.0
// What is told in tables: holders, reasons, misses, failures, figures.

const REASON_TEXTS = {
  usable: "can serve it",
  pending_events: "freed, but work of other streams is pending",
  pending_capture: "freed while a capture was under way",
  other_pool: "in another pool",
  other_class: "small blocks for a large request, or the other way round",
  other_stream: "of another stream",
  expandable: "of expandable segments, which the request may not use",
  too_small: "too small",
  not_split: "may not be split for so little",
};

const OUTCOME_TEXTS = {
  no_request: "no request",
  from_cache: "a cached block serves it",
  from_device: "the device is asked for memory",
  after_release: "cached memory is given back to the device first",
  fails: "it fails",
};

const SHOWN_HOLDERS = 12;

function reasonsTable(report) {
  const rows = report.reasons.map((row) => [REASON_TEXTS[row.reason] ?? row.reason, countText(row.blocks), bytesText(row.bytes),
    bytesText(row.largest)]);
  if (rows.length === 0) return element("p", {}, "Nothing is cached.");
  return table("Memory that is not live, by why the request cannot have it",
    [["why", "long"], ["blocks", "number"], ["bytes", "number"], ["largest", "number"]], rows);
}

function reportPanel(report) {
  if (!report) return element("p", {}, "No report: nothing was reserved before, or the request is of a private pool.");
  const request = report.request;
  const asked = request ? `A request of ${exactBytes(request.requested ?? request.size)} on stream ${streamText(request.stream)}: ` : "";
  const outcome = OUTCOME_TEXTS[request?.outcome ?? report.outcome] ?? "";
  return element("div", {class: "report"}, element("p", {}, asked + outcome), reasonsTable(report),
    report.advice ? element("p", {class: "advice"}, report.advice) : null);
}

function fragmentedPanel(run, moment) {
  const {event, report} = run.facts.fragmented;
  const shown = run.facts.reports[report];
  if (!shown?.request) return element("p", {}, "Nothing was cached when a request needed the driver.");
  const go = element("button", {type: "button", onclick: () => moment.set(Math.max(0, event - 1))}, "The moment before it");
  return element("div", {}, reportPanel(shown), element("div", {class: "controls"}, go));
}

function streamText(stream) {
  return typeof stream === "number" ? "0x" + stream.toString(16) : String(stream);
}

// Who holds the most at the peak of what was requested.
function holdersTable(run) {
  const moment = run.facts.peaks.requested.event;
  const holders = new Map();
  for (let i = 0; i < run.blockBegin.length && run.blockBegin[i] <= moment; i++) {
    if (run.blockCompleted[i] <= moment) continue;
    const kind = run.kinds[run.blockKind[i]];
    const key = `${kind.owner} ${kind.context}`;
    if (!holders.has(key)) holders.set(key, {kind, blocks: 0, requested: 0, size: 0});
    const holder = holders.get(key);
    holder.blocks++;
    holder.requested += kind.requested;
    holder.size += kind.size;
  }
  const sorted = Array.from(holders.values()).sort((a, b) => b.requested - a.requested);
  const all = sorted.reduce((sum, holder) => sum + holder.requested, 0);
  const name = (holder) => (holder.kind.context ? run.labelText(holder.kind.context) + ", " : "") + run.ownerText(holder.kind.owner);
  const rows = sorted.slice(0, SHOWN_HOLDERS).map((holder) => [name(holder), countText(holder.blocks), bytesText(holder.requested),
    bytesText(holder.size), percentText(holder.requested, all)]);
  const caption = sorted.length > SHOWN_HOLDERS ? `Top ${SHOWN_HOLDERS} of ${countText(sorted.length)} holders at the peak of requested`
    : "Holders at the peak of requested";
  return table(caption, [["holder", "long"], ["blocks", "number"], ["requested", "number"], ["in blocks of", "number"],
    ["share", "number"]], rows);
}

function requestCells(run, row, moment) {
  const go = element("button", {type: "button", class: "link", onclick: () => moment.set(row.event)}, countText(row.event));
  const label = row.context ? run.labelText(row.context) : "";
  const cells = [go, bytesText(row.requested), run.ownerText(row.owner)];
  return run.hasContexts() ? [...cells, label] : cells;
}

function requestColumns(run) {
  const columns = [["event", "number"], ["requested", "number"], ["stream and pool", "text"]];
  return run.hasContexts() ? [...columns, [run.contextTitle(), "long"]] : columns;
}

// Opens a row of its own below.
function explanation(run, row) {
  if (row.report === undefined) return "";
  const button = element("button", {type: "button", class: "link why", "aria-expanded": "false", onclick: () => {
    const above = button.closest("tr");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) above.nextSibling.remove();
    else above.after(element("tr", {class: "explanation"},
      element("td", {colspan: String(above.children.length)}, reportPanel(run.facts.reports[row.report]))));
  }}, "why");
  return button;
}

function missesPanel(run, moment) {
  const {misses, miss_count: count} = run.facts;
  if (count === 0) return element("p", {}, "Every request was served by the cache.");
  const hasCosts = misses.some((row) => row.cost_ns !== undefined);
  const columns = [...requestColumns(run), ["obtained", "number"], ["given back before", "number"],
    ...(hasCosts ? [["recorded cost", "number"]] : []), ["why not from the cache", "text"]];
  const rows = misses.map((row) => [...requestCells(run, row, moment), bytesText(row.obtained),
    bytesText(row.given_back), ...(hasCosts ? [row.cost_ns === undefined ? "" : durationText(row.cost_ns)] : []), explanation(run, row)]);
  const all = misses.length < count ? `${countText(misses.length)} of ${countText(count)}` : countText(count);
  return table(`Requests that needed the driver, the most bytes first: ${all}`, columns, rows);
}

function failuresPanel(run, moment) {
  const {failures, failure_count: count} = run.facts;
  if (count === 0) return element("p", {}, "No request failed.");
  const rows = failures.map((row) => [...requestCells(run, row, moment),
    row.is_recorded ? "in the recorded run" : "in this replay", explanation(run, row)]);
  const all = failures.length < count ? `the first ${countText(failures.length)} of ${countText(count)}` : countText(count);
  return table(`Requests that failed as out of memory: ${all}`,
    [...requestColumns(run), ["failed", "text"], ["why", "text"]], rows);
}

const FIGURES = [
  ["peak_requested", "peak of requested", bytesText],
  ["peak_allocated", "peak of allocated", bytesText],
  ["peak_reserved", "peak of reserved", bytesText],
  ["segments_peak", "segments at a time", countText],
  ["allocations", "requests", countText],
  ["out_of_memory", "requests that failed", countText],
  ["driver_allocations", "driver calls that obtained memory", countText],
  ["driver_frees", "driver calls that gave it back", countText],
];

function figuresTable(runs) {
  const isPair = runs.length === 2;
  const columns = [["figure", "text"], ...runs.map((run) => [run.facts.title, "number"]), ...(isPair ? [["difference", "number"]] : [])];
  const rows = FIGURES.map(([key, name, text]) => {
    const values = runs.map((run) => run.facts.figures[key]);
    const cells = [name, ...values.map((value) => text(value))];
    if (isPair) cells.push(differenceText(values[1] - values[0], values[0], text));
    return cells;
  });
  const several = runs.some((run) => run.facts.devices > 1);
  const made = table(several ? "Figures of the replay: peaks are the sums of each device's own" : "Figures of the replay", columns, rows);
  runs.forEach((run, i) => Object.entries(run.facts.figures).forEach(([key, value]) => made.dataset[`${key}${i}`] = String(value)));
  return made;
}

function differenceText(difference, from, text) {
  if (difference === 0) return "none";
  const sign = difference > 0 ? "+" : "−";
  const share = from > 0 ? ` (${sign}${percentText(Math.abs(difference), from)})` : "";
  return sign + text(Math.abs(difference)) + share;
}
