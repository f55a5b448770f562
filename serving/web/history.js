// Stores the predicted rows, in this browser only.

import {model} from "/page/api.js";

const KEY = "tried:" + model;
const MAX_ENTRIES = 20;
const MAX_CHARACTERS = 5000;  // per entry; browsers store about 5 million per site

export function readHistory() {
  try {
    const entries = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(entries) ? entries.filter((entry) => entry?.row) : [];
  } catch {  // storage is forbidden, or has other content
    return [];
  }
}

/** Adds a row and the text of its prediction at the top. */
export function remember(row, summary) {
  const entry = JSON.stringify({row, summary});
  if (entry.length > MAX_CHARACTERS) return;
  const isOther = (old) => JSON.stringify(old.row) !== JSON.stringify(row);
  const entries = [{row, summary}, ...readHistory().filter(isOther)];
  try {
    localStorage.setItem(KEY, JSON.stringify(entries.slice(0, MAX_ENTRIES)));
  } catch {  // storage is full or forbidden; the page works without it
  }
}

export function forgetAll() {
  try {
    localStorage.removeItem(KEY);
  } catch {  // storage is forbidden
  }
}
