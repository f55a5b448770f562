// Builds elements. Texts are never parsed as HTML.

export const byId = (id) => document.getElementById(id);

/** Returns an element; names with a hyphen, and `role`, are attributes. */
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

export const hidden = (text) => make("span", {className: "visually-hidden"}, text);

export const percent = (share) => (100 * share).toFixed(1) + " %";

/** Returns a number with its sign: +3.1 or −3.1. */
export const signed = (number, digits) =>
  (number < 0 ? "−" : "+") + Math.abs(number).toFixed(digits);

export function showError(node, error) {
  node.textContent = error ? error.message : "";
  node.hidden = !error;
}

/** Returns the first characters of a text, without half of a surrogate pair. */
export const startOf = (text, length) =>
  text.slice(0, length).replace(/[\ud800-\udbff]$/, "");

export const shorten = (text, length) =>
  text.length > length ? startOf(text, length).trimEnd() + "…" : text;
