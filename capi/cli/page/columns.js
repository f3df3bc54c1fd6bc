// SPDX-License-Identifier: MIT OR Apache-2.0
// The packed columns of a run: base64 of gzip of numbers with 7 bits a byte.

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

async function unpackedColumns(id) {
  const packed = bytesOfBase64(document.getElementById(id).textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Reads one column. Numbers go up to 2^53.
class ColumnReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let byte = this.bytes[this.at++];
    if (byte < 0x80) return byte;
    let number = byte & 0x7f;
    let unit = 0x80;
    do {
      byte = this.bytes[this.at++];
      number += (byte & 0x7f) * unit;
      unit *= 0x80;
    } while (byte >= 0x80);
    return number;
  }

  nextSigned() {
    const number = this.next();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }
}

// The columns by their names. index: [name, bytes] of each.
function columnReaders(index, bytes) {
  const readers = {};
  let at = 0;
  for (const [name, size] of index) {
    readers[name] = new ColumnReader(bytes.subarray(at, at + size));
    at += size;
  }
  return readers;
}
