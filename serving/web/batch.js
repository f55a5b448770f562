// Predicts the rows of a table, and offers them as CSV.

import {predict, model} from "/page/api.js";
import {byId, make, shorten, showError} from "/page/dom.js";
import {readTable, writeCsv} from "/page/table.js";

const ROWS = 64;  // of a request
const CHARACTERS = 200_000;  // of a request of several rows
const ATTEMPTS = 5;
const PREVIEW_ROWS = 8;
const PREVIEW_CHARACTERS = 90;
const LONG_CHARACTERS = 24;

function* inRequests(rows, columns) {
  let part = [], characters = 0;
  for (const row of rows) {
    const length = columns.reduce((sum, name) => sum + row.values[name].length, 0);
    if (part.length && (part.length === ROWS || characters + length > CHARACTERS)) {
      yield part;
      [part, characters] = [[], 0];
    }
    part.push(row);
    characters += length;
  }
  if (part.length) yield part;
}

/** Tries again while the server's queue is full. */
async function predictPatiently(rows, signal) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await predict(rows, {signal});
    } catch (error) {
      if (error.status !== 503 || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * attempt));
    }
  }
}

async function predictAll(rows, columns, signal, onProgress) {
  const predictions = [];
  for (const part of inRequests(rows, columns)) {
    const texts = part.map(({values}) =>
      Object.fromEntries(columns.map((name) => [name, values[name]])));
    try {
      predictions.push(...await predictPatiently(texts, signal));
    } catch (error) {
      if (error.name === "AbortError") throw new Error(`stopped after ${predictions.length} rows`);
      throw new Error(`lines ${part[0].line} to ${part.at(-1).line}: ${error.message}`);
    }
    onProgress(predictions.length);
  }
  return predictions;
}

function describeCell(cell) {
  if (typeof cell === "number") {
    return make("td", {}, Number.isInteger(cell) ? String(cell) : cell.toFixed(4));
  }
  const text = typeof cell === "string" ? cell : JSON.stringify(cell ?? "");
  const className = text.length > LONG_CHARACTERS ? "long" : "";
  return make("td", {className}, shorten(text, PREVIEW_CHARACTERS));
}

function showPreview(header, rows) {
  byId("table-preview").replaceChildren(make("table", {},
    make("thead", {}, make("tr", {},
      ...header.map((name) => make("th", {scope: "col"}, name)))),
    make("tbody", {}, ...rows.slice(0, PREVIEW_ROWS).map((row) =>
      make("tr", {}, ...row.map(describeCell))))));
  byId("table-preview").hidden = false;
}

function offer(csv) {
  const link = byId("table-download");
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([csv], {type: "text/csv"}));
  link.download = model + "-predictions.csv";
  link.hidden = false;
}

/**
 * Connects the form.
 *
 * @param getTask Returns {columns, fields}: the text columns, and a function from a
 *   prediction to an object of output columns.
 */
export function connectTable(getTask) {
  const text = byId("table-text"), status = byId("table-status"), progress = byId("table-progress");
  let controller = new AbortController();

  async function run() {
    const {columns, fields} = getTask();
    const {header, rows} = readTable(text.value, columns);
    progress.max = rows.length;
    controller = new AbortController();
    const start = performance.now();
    const predictions = await predictAll(rows, columns, controller.signal, (done) => {
      progress.value = done;
    });
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const outputs = predictions.map(fields);
    // Predictions that were downloaded before are replaced.
    const kept = header.filter((name) => !Object.hasOwn(outputs[0], name));
    const names = [...kept, ...Object.keys(outputs[0])];
    const lines = rows.map(({values}, index) =>
      [...kept.map((name) => values[name]), ...Object.values(outputs[index])]);
    offer(writeCsv(names, lines));
    showPreview(names, lines);
    status.textContent = `${rows.length} ${rows.length === 1 ? "row" : "rows"} in ${seconds} s`;
  }

  byId("table-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const id of ["table-download", "table-preview"]) byId(id).hidden = true;
    showError(byId("table-error"));
    status.textContent = "";
    progress.value = 0;
    const running = [byId("table-cancel"), progress];
    for (const node of running) node.hidden = false;
    byId("table-predict").disabled = true;
    try {
      await run();
    } catch (error) {
      showError(byId("table-error"), error);
    }
    for (const node of running) node.hidden = true;
    byId("table-predict").disabled = false;
  });
  byId("table-cancel").addEventListener("click", () => controller.abort());

  const load = async (file) => {
    if (file) text.value = await file.text();
  };
  byId("table-file").addEventListener("change", (event) => load(event.target.files[0]));
  const section = byId("table");
  section.addEventListener("dragover", (event) => {
    event.preventDefault();
    section.classList.add("dropping");
  });
  section.addEventListener("dragleave", () => section.classList.remove("dropping"));
  section.addEventListener("drop", (event) => {
    section.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    load(event.dataTransfer.files[0]);
  });
}
