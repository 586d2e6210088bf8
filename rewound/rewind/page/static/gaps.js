// Stretches of time that a recording missed: pure functions. A gap is {fromMicros, toMicros, why, kinds, missing, message};
// without `toMicros` it lasts, and without kinds it is one of all of them.

import { visible } from "./diff.js";
import { readable, spanOf } from "./scale.js";

const REASONS = {
  stopped: "the recorder did not run", unreachable: "the API server did not respond",
  expired: "versions are missing, as the watch had expired", refused: "the recorder may not read it",
  gone: "the server no longer serves it", failing: "the API server responded with errors",
  unlisted: "it could not be listed", "left-out": "an object could not be recorded",
};
const NAMED = 3;  // kinds in a text

const concerns = (gap, type) => !type || !gap.kinds.length || gap.kinds.includes(type);

export const endOf = (gap) => gap.toMicros ?? Infinity;

// Those that a view shows, and that concern a type, if there is one.
export function gapsIn(gaps, view, type = "") {
  return gaps.filter((one) => one.fromMicros < view.to && endOf(one) > view.from && concerns(one, type));
}

export function gapsAt(gaps, time, type = "") {
  return gaps.filter((one) => one.fromMicros <= time && time < endOf(one) && concerns(one, type));
}

// "pods not recorded from ... to ...: the API server did not respond"
export function gapText(gap, view = null) {
  const { kinds } = gap, span = view ? spanOf(view) : 0, end = gap.toMicros ? `to ${readable(gap.toMicros, span)}` : "on";
  const more = kinds.length > NAMED ? ` and ${kinds.length - NAMED} more kinds` : "";
  const what = kinds.length ? `${kinds.slice(0, NAMED).join(", ")}${more} ` : "";
  return visible(`${what}not recorded from ${readable(gap.fromMicros, span)} ${end}: ${REASONS[gap.why] ?? gap.why}`);
}

// The gap of several that says most: one in which versions are missing for certain, or else the last.
export function worst(gaps) {
  return gaps.find((one) => one.missing) ?? gaps[0] ?? null;
}
