// Reads TSV, CSV and JSON Lines, and writes CSV.

// Comma is first: a header of one column has no separator, and its texts may be quoted.
const SEPARATORS = [",", "\t", ";"];

/** Yields the records of CSV as {line, fields}; quotes are those of RFC 4180. */
function* splitCsv(text, separator) {
  let fields = [], field = "", isQuoted = false, line = 1, start = 1;
  const isBlank = () => !fields.length && field === "";
  const endRecord = () => {
    const record = {line: start, fields: [...fields, field]};
    [fields, field] = [[], ""];
    return record;
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
    } else if (character === separator) {
      fields.push(field);
      field = "";
    } else if (character === "\n") {
      if (!isBlank()) yield endRecord();
      start = line;
    } else {
      field += character;
    }
  }
  if (isQuoted) throw new Error(`line ${start}: a quote is not closed`);
  if (!isBlank()) yield endRecord();
}

/** Yields the records of TSV, where quotes have no special meaning. */
function* splitTsv(text) {
  for (const [index, content] of text.split("\n").entries()) {
    if (content !== "") yield {line: index + 1, fields: content.split("\t")};
  }
}

const split = (text, separator) =>
  separator === "\t" ? splitTsv(text) : splitCsv(text, separator);

/** Returns the separator that splits the header into columns. */
function findSeparator(text, columns) {
  const headers = SEPARATORS.map((separator) => {
    const [{fields}] = split(text, separator);
    return {separator, fields};
  });
  const match = headers.find(({fields}) => columns.every((name) => fields.includes(name)));
  if (match) return match.separator;
  const {fields} = headers.reduce((best, other) =>
    other.fields.length > best.fields.length ? other : best);
  const missing = columns.filter((name) => !fields.includes(name));
  throw new Error(`line 1: the header has no ${missing.join(", ")}; it has ` +
    `${fields.join(", ")}. Paste a table whose header has ${columns.join(" and ")}, separated ` +
    "by tabs, commas or semicolons, or JSON Lines with these keys");
}

function readDelimited(records) {
  const [{fields: header}, ...others] = records;
  const repeated = header.find((name, index) => header.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw new Error(`line 1: the header has ${JSON.stringify(repeated)} twice`);
  }
  const rows = others.map(({line, fields}) => {
    if (fields.length !== header.length) {
      throw new Error(`line ${line} has ${fields.length} ${fields.length === 1 ? "field" : "fields"}, but the header has ` +
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
 * Reads a table whose header or keys include the columns.
 *
 * @returns {header, rows: [{line, values}]}
 */
export function readTable(text, columns) {
  // Without the byte order mark that Excel writes.
  const content = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  if (content.trim() === "") throw new Error("the table is empty: paste one or open a file");
  const isJson = content.trimStart().startsWith("{");
  const table = isJson ? readJsonLines(content)
    : readDelimited(split(content, findSeparator(content, columns)));
  for (const row of table.rows) {
    for (const name of columns) {
      if (typeof row.values[name] !== "string") {
        throw new Error(`line ${row.line} has no text ${name}`);
      }
    }
  }
  if (!table.rows.length) throw new Error("the table has a header but no rows");
  return table;
}

function quote(value) {
  const text = value === undefined || value === null ? ""
    : typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const writeCsv = (header, rows) =>
  [header, ...rows].map((row) => row.map(quote).join(",") + "\r\n").join("");
