// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory over time: sums at each event, and what a chart of limited width can show of them.

// Bytes behind each event, of all devices.
function totalsOf(run) {
  const events = Math.max(1, run.facts.events);
  const make = () => new Float64Array(events);
  const totals = {requested: make(), allocated: make(), pending: make(), reserved: make()};
  for (let i = 0; i < run.blockBegin.length; i++) {
    const kind = run.kinds[run.blockKind[i]];
    const begin = run.blockBegin[i];
    const freed = run.blockFreed[i];
    const completed = run.blockCompleted[i];
    totals.requested[begin] += kind.requested;
    totals.allocated[begin] += kind.size;
    if (completed !== NEVER) totals.requested[completed] -= kind.requested;
    if (freed === NEVER) continue;
    totals.allocated[freed] -= kind.size;
    if (freed === completed) continue;
    totals.pending[freed] += kind.size;
    if (completed !== NEVER) totals.pending[completed] -= kind.size;
  }
  for (const range of run.ranges) {
    totals.reserved[range.begin] += range.size;
    if (range.end !== NEVER) totals.reserved[range.end] -= range.size;
  }
  for (const series of Object.values(totals))
    for (let i = 1; i < events; i++) series[i] += series[i - 1];
  return totals;
}

function mostOf(series) {
  let most = 0;
  for (let i = 0; i < series.length; i++) if (series[i] > most) most = series[i];
  return most;
}

// The events whose values a chart shows: all of few, else the first and the last of each of so many parts.
function shownEvents(from, to, parts) {
  const count = to - from + 1;
  if (count <= 2 * parts) return {isExact: true, events: Uint32Array.from({length: count}, (_, i) => from + i)};
  const events = new Uint32Array(2 * parts);
  for (let i = 0; i < parts; i++) {
    events[2 * i] = from + Math.floor(i * count / parts);
    events[2 * i + 1] = from + Math.floor((i + 1) * count / parts) - 1;
  }
  return {isExact: false, events};
}

// At the first and the last event of a part stand its lowest and its highest value, in the order in which they came.
function shownValues(series, shown) {
  const {events, isExact} = shown;
  if (isExact) return Array.from(events, (event) => series[event]);
  const values = new Array(events.length);
  for (let i = 0; i < events.length; i += 2) {
    let low = events[i];
    let high = low;
    for (let event = low + 1; event <= events[i + 1]; event++) {
      if (series[event] < series[low]) low = event;
      if (series[event] > series[high]) high = event;
    }
    values[i] = series[Math.min(low, high)];
    values[i + 1] = series[Math.max(low, high)];
  }
  return values;
}

// For stacks, whose parts have to be of one moment: of each part the event with the most.
function shownPeaks(series, shown) {
  if (shown.isExact) return shown.events;
  const peaks = new Uint32Array(shown.events.length / 2);
  for (let i = 0; i < peaks.length; i++) {
    let high = shown.events[2 * i];
    for (let event = high + 1; event <= shown.events[2 * i + 1]; event++)
      if (series[event] > series[high]) high = event;
    peaks[i] = high;
  }
  return peaks;
}

const STACKED_GROUPS = 9;

const GROUPINGS = {
  label: (run, owner, context) => run.labelText(context),
  stream: (run, owner) => "stream " + run.owner(owner).stream,
  pool: (run, owner) => run.owner(owner).pool === "default" ? "default pools" : "pool " + run.owner(owner).pool,
  device: (run, owner) => "device " + run.owner(owner).device,
};

// Each thing that holds memory, with the group that it is of.
function* holdings(run, measure, groupOf) {
  if (measure === "reserved") {
    for (const range of run.ranges) yield [groupOf(run, range.owner, 0), range.size, range.begin, range.end];
    return;
  }
  const groups = run.kinds.map((kind) => groupOf(run, kind.owner, kind.context));
  const ends = measure === "allocated" ? run.blockFreed : run.blockCompleted;
  const field = measure === "allocated" ? "size" : "requested";
  for (let i = 0; i < run.blockBegin.length; i++) {
    const kind = run.blockKind[i];
    yield [groups[kind], run.kinds[kind][field], run.blockBegin[i], ends[i]];
  }
}

// The values of each group at each of the events: [name, values].
function* valuesOfGroups(run, measure, grouping, events) {
  const first = (event) => {  // place of the first event that is not before it
    let low = 0;
    let high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle] < event) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const changes = new Map();
  for (const [group, bytes, begin, end] of holdings(run, measure, GROUPINGS[grouping])) {
    if (!changes.has(group)) changes.set(group, new Float64Array(events.length + 1));
    changes.get(group)[first(begin)] += bytes;
    if (end !== NEVER) changes.get(group)[first(end)] -= bytes;
  }
  for (const [name, values] of changes) {
    for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
    yield [name, values.subarray(0, events.length)];
  }
}

// The names of the groups with the most bytes at one of the events.
function largestGroups(run, measure, grouping, events) {
  const groups = Array.from(valuesOfGroups(run, measure, grouping, events),
    ([name, values]) => ({name, most: values.reduce((most, bytes) => Math.max(most, bytes), 0)}));
  groups.sort((a, b) => b.most - a.most || (a.name < b.name ? -1 : 1));
  return groups.slice(0, STACKED_GROUPS).map((group) => group.name);
}

// Of the groups with these names, in their order, and of all others together: [{name, values}].
function groupedValues(run, measure, grouping, events, names) {
  const groups = names.map((name) => ({name, values: new Float64Array(events.length)}));
  const rest = {values: new Float64Array(events.length), isRest: true};
  let others = 0;
  for (const [name, values] of valuesOfGroups(run, measure, grouping, events)) {
    const group = groups[names.indexOf(name)] ?? rest;
    if (group === rest) others++;
    values.forEach((value, i) => group.values[i] += value);
  }
  return others === 0 ? groups : [...groups, {...rest, name: `${countText(others)} others`}];
}
