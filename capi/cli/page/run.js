// SPDX-License-Identifier: MIT OR Apache-2.0
// A run: its blocks, and the memory that they lie in. A moment is the index of an event: what is behind it.

const NEVER = 2 ** 32 - 1;

class Run {
  constructor(facts, number) {
    this.facts = facts;
    this.number = number;
    this.lastMoment = Math.max(0, facts.events - 1);
  }

  async load() {
    const bytes = await unpackedColumns("columns-" + this.number);
    const readers = columnReaders(this.facts.columns, bytes);
    this.readKinds(readers);
    this.readBlocks(readers);
    this.readRanges(readers);
    this.readTimes(readers);
    this.totals = totalsOf(this);
    this.mosts = Object.fromEntries(Object.entries(this.totals).map(([name, series]) => [name, mostOf(series)]));
  }

  most(name) {
    return this.mosts[name];
  }

  readKinds(readers) {
    this.kinds = [];
    for (let i = 0; i < this.facts.kind_count; i++)
      this.kinds.push({
        owner: readers.kind_owner.next(),
        requested: readers.kind_requested.next(),
        size: readers.kind_size.next(),
        context: readers.kind_context.next(),
      });
  }

  readBlocks(readers) {
    const count = this.facts.block_count;
    this.blockKind = new Uint32Array(count);
    this.blockBegin = new Uint32Array(count);
    this.blockAddress = new Float64Array(count);
    this.blockFreed = new Uint32Array(count);
    this.blockCompleted = new Uint32Array(count);
    const last = new Float64Array(this.kinds.length);
    let event = 0;
    for (let i = 0; i < count; i++) {
      const kind = this.blockKind[i] = readers.block_kind.next();
      event = this.blockBegin[i] = event + readers.block_begin.next();
      last[kind] = this.blockAddress[i] = last[kind] + readers.block_address.nextSigned();
      const freed = readers.block_freed.next();
      const completed = readers.block_completed.next();
      this.blockFreed[i] = freed === 0 ? NEVER : event + freed - 1;
      this.blockCompleted[i] = completed === 0 ? NEVER : this.blockFreed[i] + completed - 1;
    }
  }

  readRanges(readers) {
    this.ranges = [];
    let event = 0;
    let address = 0;
    for (let i = 0; i < this.facts.range_count; i++) {
      event += readers.range_begin.next();
      address += readers.range_address.nextSigned();
      const end = readers.range_end.next();
      this.ranges.push({
        address,
        size: readers.range_size.next(),
        owner: readers.range_owner.next(),
        isExpandable: readers.range_expandable.next() === 1,
        begin: event,
        end: end === 0 ? NEVER : event + end - 1,
      });
    }
  }

  // Seconds since the first event.
  readTimes(readers) {
    if (!this.facts.has_time) return;
    this.seconds = new Float64Array(this.facts.events);
    let microseconds = 0;
    for (let i = 0; i < this.seconds.length; i++) {
      microseconds += readers.event_time.nextSigned();
      this.seconds[i] = microseconds / 1e6;
    }
  }

  // ---- Names ----

  owner(index) {
    return this.facts.owners[index];
  }

  ownerText(index) {
    const owner = this.owner(index);
    const device = this.facts.devices > 1 ? `device ${owner.device}, ` : "";
    return `${device}stream ${owner.stream}, ${owner.pool === "default" ? "default pools" : "pool " + owner.pool}`;
  }

  hasContexts() {
    return this.facts.contexts.some((frames) => frames.length > 0);
  }

  // The outermost first.
  frames(context) {
    return this.facts.contexts[context].map((text) => this.facts.texts[text]);
  }

  isOfStacks() {
    return this.facts.contexts_are === "stacks";
  }

  contextTitle() {
    return this.isOfStacks() ? "innermost call" : "label";
  }

  // A label as it was pushed; of a stack, its innermost call.
  labelText(context) {
    const frames = this.frames(context);
    if (frames.length === 0) return this.isOfStacks() ? "no stack" : "no label";
    return this.isOfStacks() ? frames[frames.length - 1] : frames.join("/");
  }

  momentText(moment) {
    const time = this.seconds ? `, ${secondsText(this.seconds[moment])}` : "";
    return `event ${countText(moment)} of ${countText(this.facts.events)}${time}`;
  }

  // ---- A moment ----

  // Blocks that are live or whose free waits, by address.
  activeBlocks(moment) {
    const found = [];
    for (let i = 0; i < this.blockBegin.length && this.blockBegin[i] <= moment; i++)
      if (this.blockCompleted[i] > moment) found.push(i);
    return found.sort((a, b) => this.deviceOfBlock(a) - this.deviceOfBlock(b) || this.blockAddress[a] - this.blockAddress[b]);
  }

  deviceOfBlock(index) {
    return this.owner(this.kinds[this.blockKind[index]].owner).device;
  }

  block(index, moment) {
    const kind = this.kinds[this.blockKind[index]];
    return {
      state: this.blockFreed[index] > moment ? "live" : "pending",
      address: this.blockAddress[index],
      size: kind.size,
      requested: kind.requested,
      owner: kind.owner,
      context: kind.context,
      begin: this.blockBegin[index],
    };
  }

  // Segments by address, with their blocks and what is cached between them. Parts of an expandable segment that touch
  // are one.
  segments(moment) {
    const there = this.ranges.filter((range) => range.begin <= moment && moment < range.end);
    there.sort((a, b) => this.owner(a.owner).device - this.owner(b.owner).device || a.address - b.address);
    const segments = [];
    for (const range of there) {
      const last = segments[segments.length - 1];
      const touches = last && last.isExpandable && range.isExpandable && last.owner === range.owner &&
        last.address + last.size === range.address;
      if (touches) last.size += range.size;
      else segments.push({address: range.address, size: range.size, owner: range.owner,
        isExpandable: range.isExpandable, blocks: []});
    }
    this.fill(segments, this.activeBlocks(moment), moment);
    return segments;
  }

  fill(segments, active, moment) {
    let at = 0;
    for (const segment of segments) {
      const device = this.owner(segment.owner).device;
      const end = segment.address + segment.size;
      let address = segment.address;
      const cached = (until) => {
        if (until > address) segment.blocks.push({state: "cached", address, size: until - address, owner: segment.owner});
      };
      for (; at < active.length; at++) {
        const block = this.block(active[at], moment);
        const blockDevice = this.owner(block.owner).device;
        if (blockDevice > device || (blockDevice === device && block.address >= end)) break;
        if (blockDevice < device || block.address < address) continue;
        cached(block.address);
        segment.blocks.push(block);
        address = block.address + block.size;
      }
      cached(end);
    }
  }
}

// Sums over segments: of all, and by owner.
function momentSums(segments) {
  const empty = () => ({segments: 0, reserved: 0, requested: 0, live: 0, pending: 0, cached: 0,
    liveBlocks: 0, pendingBlocks: 0, cachedBlocks: 0, largest: 0});
  const all = empty();
  const byOwner = new Map();
  for (const segment of segments) {
    if (!byOwner.has(segment.owner)) byOwner.set(segment.owner, empty());
    for (const sums of [all, byOwner.get(segment.owner)]) {
      sums.segments++;
      sums.reserved += segment.size;
      for (const block of segment.blocks) {
        sums[block.state] += block.size;
        sums[block.state + "Blocks"]++;
        if (block.state === "cached") sums.largest = Math.max(sums.largest, block.size);
        else sums.requested += block.requested;
      }
    }
  }
  return {all, byOwner};
}
