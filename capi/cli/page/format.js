// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers as people read them, and elements of the page.

const UNITS = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

function countText(number) {
  return number.toLocaleString("en-US");
}

function bytesText(bytes) {
  const size = Math.abs(bytes);
  for (const [unit, name] of UNITS) {
    if (size < unit) continue;
    const amount = bytes / unit;
    const digits = Math.abs(amount) < 10 ? 2 : 1;
    return amount.toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits}) + " " + name;
  }
  return countText(bytes) + " B";
}

function mebibytes(bytes) {
  return bytes / 2 ** 20;
}

// As `cachalot tune` has them in its table.
function mebibytesText(bytes) {
  return mebibytes(bytes).toLocaleString("en-US", {minimumFractionDigits: 1, maximumFractionDigits: 1}) + " MiB";
}

// With the exact number behind it.
function exactBytes(bytes) {
  return bytes < 1024 ? bytesText(bytes) : `${bytesText(bytes)} (${countText(bytes)} B)`;
}

function percentText(part, whole) {
  return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "–";
}

function ratioText(part, whole) {
  return whole > 0 ? (part / whole).toFixed(3) : "–";
}

function durationText(nanoseconds) {
  if (nanoseconds < 1e3) return nanoseconds.toFixed(0) + " ns";
  if (nanoseconds < 1e6) return (nanoseconds / 1e3).toFixed(1) + " µs";
  if (nanoseconds < 1e9) return (nanoseconds / 1e6).toFixed(2) + " ms";
  return (nanoseconds / 1e9).toFixed(3) + " s";
}

function secondsText(seconds) {
  return seconds.toLocaleString("en-US", {minimumFractionDigits: 3, maximumFractionDigits: 3}) + " s";
}

function addressText(address) {
  return "0x" + address.toString(16);
}

// element("p", {class: "note"}, "text", child): what is given as text stays text.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A select with its label. options: [value, text].
function choice(label, options, chosen, change) {
  const select = element("select", {onchange: () => change(select.value)});
  for (const [value, text] of options) select.append(element("option", {value}, text));
  select.value = chosen;
  return element("label", {class: "choice"}, label + " ", select);
}

// columns: [title, "number", "text" or "long", which is broken]; rows of strings or nodes; the first cell of a row is its heading.
function table(caption, columns, rows) {
  const head = element("tr", {}, ...columns.map(([title, kind]) => element("th", {scope: "col", class: kind}, title)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) =>
    element(i === 0 ? "th" : "td", {class: columns[i][1], scope: i === 0 ? "row" : undefined}, cell))));
  return element("div", {class: "table", tabindex: "0", role: "region", "aria-label": caption},
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)));
}

// A colour of the style sheet, for canvases.
function styleColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

const SERIES_COLOURS = 10;

function seriesColour(index) {
  return styleColour("series-" + index % SERIES_COLOURS);
}
