// SPDX-License-Identifier: MIT OR Apache-2.0
// The answer of `cachalot tune`: a chart, what is recommended and a table, for each recording and for all together.

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + ".";
}

// The answer for one recording or for all together.
class Answer {
  constructor(tuned, count) {
    this.tuned = tuned;
    this.title = tuned.file === undefined ? `All ${countText(count)} recordings together` : fileName(tuned.file);
    this.table = this.makeTable();
    this.chart = new ScatterChart(tuned, this.title, (row) => this.mark(row));
  }

  panel() {
    const heading = element("h3", {}, `${this.title}: ${this.facts().join(", ")}`);
    if (this.tuned.results.length === 0) return element("div", {class: "answer"}, heading, element("p", {}, "No string was looked at."));
    return element("div", {class: "answer"}, heading,
      element("div", {class: "advised"}, this.chart.panel, this.recommendation()), this.table);
  }

  facts() {
    const {events, results, requested_bytes: requested} = this.tuned;
    return [...(events === undefined ? [] : [`${countText(events)} events`]), ...results.slice(0, 1).map((row) => `PyTorch ${row.release}`),
      `${mebibytesText(requested)} requested at most`];
  }

  recommendation() {
    const {recommended} = this.tuned;
    const box = element("div", {class: "recommendation"}, element("h4", {}, "Recommended"));
    if (recommended === null) {
      box.append(element("p", {}, "Nothing: no string of PyTorch's was looked at."));
      return box;
    }
    const code = codeOf(recommended);
    box.append(element("p", {class: "string"}, code, recommended.config ? copyButton(code) : null),
      element("p", {}, sentence(recommended.reason)));
    if (recommended.varied_runs > 0) box.append(element("p", {}, variedText(recommended)));
    if (recommended.warnings.length > 0)
      box.append(element("h4", {}, "Mind"), element("ul", {}, ...recommended.warnings.map((warning) => element("li", {}, warning))));
    return box;
  }

  makeTable() {
    const {tuned} = this;
    const columns = [["options", "string"], ["Pareto front", "text"], ["recommended", "text"], ["smallest device", "number"],
      ["of requested", "number"], ["driver calls", "number"], ["cost", "number"], ["retries", "number"], ["left", "number"]];
    const rows = tuned.results.map((row) => [this.optionsCell(row), row.is_on_front ? "yes" : "", isRecommended(tuned, row) ? "yes" : "",
      mebibytesText(row.fits_bytes), ratioText(row.fits_bytes, tuned.requested_bytes), countText(row.driver_calls), costText(row),
      countText(row.retries), bytesText(row.left_bytes)]);
    const made = table(`${countText(rows.length)} strings${triedText(tuned)}`, columns, rows);
    this.lines = new Map(Array.from(made.querySelectorAll("tbody tr"), (line, i) => [tuned.results[i], line]));
    for (const [row, line] of this.lines) line.classList.toggle("recommended", isRecommended(tuned, row));
    return made;
  }

  optionsCell(row) {
    const cell = element("span", {}, codeOf(row));
    if (row.found_by_search) cell.append(" ", element("span", {class: "found"}, "found by the search"));
    return cell;
  }

  // The row of the point that the chart shows.
  mark(chosen) {
    for (const [row, line] of this.lines) line.classList.toggle("chosen", row === chosen);
  }
}

// Broken behind its commas.
function codeOf(row) {
  const parts = optionsText(row).split(/(?<=,)/);
  return element("code", {}, ...parts.flatMap((part) => [part, element("wbr")]));
}

function fileName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function triedText(tuned) {
  return tuned.strings_tried > 0 ? `; the search tried ${countText(tuned.strings_tried)}` : "";
}

function variedText(recommended) {
  const {varied_runs: runs, varied_runs_finished: finished, varied_runs_finished_by_defaults: byDefaults} = recommended;
  return `Of ${countText(runs)} runs whose large sizes differ by up to 3 %, ${countText(finished)} finish with 2 % more ` +
    `(under the defaults: ${countText(byDefaults)}).`;
}

// Where the clipboard is refused the string is selected, for the reader's own keys.
function copyButton(code) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  };
  const button = element("button", {type: "button", onclick: copy}, "Copy");
  return button;
}

function heldBackTable(rows) {
  return table("Recordings that were held back to check the recommended string", [["recording", "long"], ["requested", "number"],
    ["smallest device", "number"], ["of requested", "number"], ["by the defaults", "number"], ["of requested", "number"]],
  rows.map((row) => [fileName(row.file), mebibytesText(row.requested_bytes), mebibytesText(row.fits_bytes),
    ratioText(row.fits_bytes, row.requested_bytes), mebibytesText(row.fits_bytes_of_defaults),
    ratioText(row.fits_bytes_of_defaults, row.requested_bytes)]));
}

function deviceText(tuned) {
  const reserve = tuned.device_bytes - tuned.usable_bytes;
  return `a device of ${bytesText(tuned.device_bytes)}${reserve > 0 ? `, of which others take ${bytesText(reserve)}` : ""}`;
}

// What the columns mean, and what the rest of the page shows.
function remarks(tune, runs) {
  const device = deviceText(tune.runs[0]);
  const second = runs.length > 1 ? " and under the recommended string" : "";
  return [
    "Smallest device: the run finishes there, and on each larger one that was looked at in steps of at most 0.4 %; it may fail on others, since fitting is not monotone.",
    `Driver calls, their cost (of the ${tune.costs}, without waits for work), retries and what is left to others: on ${device}.`,
    "Pareto front: no other string is better in both smallest device and cost. The line is the least cost that a device of each size has room for.",
    `Below: ${runs[0].facts.name} on ${bytesText(runs[0].facts.capacity)}, under the defaults${second}.`,
  ];
}

// Of all together first.
function answersOf(tune) {
  return [...(tune.together ? [tune.together] : []), ...tune.runs].map((tuned) => new Answer(tuned, tune.runs.length));
}

function tunePanels(tune, answers, runs) {
  return [
    tune.is_complete ? null : element("p", {class: "problem"}, "Stopped by its user: strings are missing."),
    ...answers.map((answer) => answer.panel()),
    tune.held_back.length > 0 ? heldBackTable(tune.held_back) : null,
    element("ul", {class: "note"}, ...remarks(tune, runs).map((remark) => element("li", {}, remark))),
  ];
}
