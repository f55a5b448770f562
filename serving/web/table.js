// Reads TSV, CSV and JSON Lines, and writes CSV.

/** Returns the records of CSV as {line, fields}; quotes are those of RFC 4180. */
function splitCsv(text) {
  const records = [];
  let fields = [], field = "", isQuoted = false, line = 1, start = 1;
  const endRecord = () => {
    fields.push(field);
    if (fields.length > 1 || fields[0] !== "") records.push({line: start, fields});
    [fields, field] = [[], ""];
  };
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === "\n") line += 1;
    if (isQuoted) {
      if (character !== '"') field += character;
      else if (text[i + 1] === '"') field += text[++i];
      else isQuoted = false;
    } else if (character === '"' && field === "") {
      isQuoted = true;
    } else if (character === ",") {
      fields.push(field);
      field = "";
    } else if (character === "\n") {
      endRecord();
      start = line;
    } else {
      field += character;
    }
  }
  if (isQuoted) throw new Error(`line ${start}: a quote is not closed`);
  endRecord();
  return records;
}

/** Returns the records of TSV, where a quote is a character as any other. */
function splitTsv(text) {
  return text.split("\n").flatMap((content, index) =>
    content === "" ? [] : [{line: index + 1, fields: content.split("\t")}]);
}

function readDelimited(records) {
  const [{fields: header}, ...others] = records;
  const repeated = header.find((name, index) => header.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw new Error(`line 1: the header has ${JSON.stringify(repeated)} twice`);
  }
  const rows = others.map(({line, fields}) => {
    if (fields.length !== header.length) {
      throw new Error(`line ${line} has ${fields.length} fields, and the header ` +
        `${header.length}`);
    }
    return {line, values: Object.fromEntries(header.map((name, i) => [name, fields[i]]))};
  });
  return {header, rows};
}

function readJsonLines(text) {
  const rows = text.split("\n").flatMap((content, index) => {
    if (content.trim() === "") return [];
    const line = index + 1;
    let values;
    try {
      values = JSON.parse(content);
    } catch (error) {
      throw new Error(`line ${line} is not JSON: ${error.message}`);
    }
    if (values === null || typeof values !== "object" || Array.isArray(values)) {
      throw new Error(`line ${line} is not an object`);
    }
    return [{line, values}];
  });
  return {header: [...new Set(rows.flatMap(({values}) => Object.keys(values)))], rows};
}

/**
 * Reads a table whose header, or keys, have the names of columns.
 *
 * @returns {header, rows: [{line, values}]}
 */
export function readTable(text, columns) {
  // Without the mark that Excel puts first.
  const content = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  if (content.trim() === "") throw new Error("there are no rows: paste a table or open a file");
  const [first] = content.split("\n", 1);
  const isJson = content.trimStart().startsWith("{");
  const table = isJson ? readJsonLines(content)
    : readDelimited(first.includes("\t") ? splitTsv(content) : splitCsv(content));
  if (!isJson) {
    const missing = columns.filter((name) => !table.header.includes(name));
    if (missing.length) {
      throw new Error(`line 1: the header has no ${missing.join(", ")}; it has ` +
        table.header.join(", "));
    }
  }
  for (const {line, values} of table.rows) {
    for (const name of columns) {
      if (typeof values[name] !== "string") throw new Error(`line ${line} has no text ${name}`);
    }
  }
  if (!table.rows.length) throw new Error("there is a header, but no row below it");
  return table;
}

function quote(value) {
  const text = value === undefined || value === null ? ""
    : typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const writeCsv = (header, rows) =>
  [header, ...rows].map((row) => row.map(quote).join(",") + "\r\n").join("");
