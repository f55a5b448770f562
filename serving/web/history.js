// Remembers what was tried, in this browser only.

import {model} from "/page/api.js";

const KEY = "tried:" + model;
const MAX_ENTRIES = 20;
const MAX_CHARACTERS = 5000;  // of an entry: the browser allows about 5 million for all

export function readHistory() {
  try {
    const entries = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(entries) ? entries.filter((entry) => entry?.row) : [];
  } catch {  // the browser forbids it, or another page wrote it
    return [];
  }
}

/** Puts a row and the text of its prediction first. */
export function remember(row, summary) {
  const entry = JSON.stringify({row, summary});
  if (entry.length > MAX_CHARACTERS) return;
  const isOther = (old) => JSON.stringify(old.row) !== JSON.stringify(row);
  const entries = [{row, summary}, ...readHistory().filter(isOther)];
  try {
    localStorage.setItem(KEY, JSON.stringify(entries.slice(0, MAX_ENTRIES)));
  } catch {  // full or forbidden: the page works without
  }
}

export function forgetAll() {
  try {
    localStorage.removeItem(KEY);
  } catch {  // forbidden
  }
}
