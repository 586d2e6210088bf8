// Downloads events with their contents as JSON lines, oldest first.

import { masked } from "./secrets.js";

const MOST = 50_000;

// Thrown after the download of a part.
export class Incomplete extends Error {
  constructor(count) {
    super(`Exported the oldest ${count.toLocaleString("en")} events only: choose a shorter range or a filter, and export the others too.`);
  }
}

// How many events there were. Incomplete, if there are more than an export may have.
export async function exportEvents(session, parameters, progress) {
  const chunks = [];
  let count = 0, isWhole = false;
  parameters.delete("summary");  // the contents say it all
  parameters.set("order", "ascending");
  parameters.set("contents", "true");
  for (;;) {
    const page = await session.events(parameters);
    if (page.items.length) chunks.push(`${page.items.map(line).join("\n")}\n`);
    count += page.items.length;
    progress(count);
    isWhole = !page.metadata.continue;
    if (isWhole || count >= MOST) break;
    parameters.set("continue", page.metadata.continue);
  }
  download(new Blob(chunks, { type: "application/x-ndjson" }), "journal.jsonl");
  if (!isWhole) throw new Incomplete(count);
  return count;
}

function line(one) {
  return JSON.stringify(one.object ? { ...one, object: masked(one.type, one.object) } : one);
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
