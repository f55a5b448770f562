// Calls TensorFlow Serving's REST API.

const meta = (name) => document.querySelector(`meta[name=${name}]`).content;
export const model = meta("model");
export const signatureName = meta("signature");
export const grpcPort = meta("grpc-port");
export const needsToken = Boolean(meta("needs-token"));
export const path = "/v1/models/" + encodeURIComponent(model);

let token = "";  // in memory only: no storage, no URL

export const hasToken = () => !needsToken || token !== "";

export function setToken(value) {
  token = value;
}

async function call(address, options = {}) {
  const headers = {...options.headers, ...(token && {Authorization: `Bearer ${token}`})};
  const response = await fetch(address, {...options, headers}).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("the server cannot be reached");
  });
  const content = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    // A proxy responds in HTML; TensorFlow Serving's API writes NaN, which is not JSON.
    throw new Error(`the response (HTTP ${response.status}) is not JSON, or has NaN`);
  });
  if (!response.ok) {
    throw Object.assign(new Error(content.error), {status: response.status});
  }
  return content;
}

export const readStatus = async () => (await call(path)).model_version_status;

export const readMetadata = async () => (await call(path + "/metadata")).metadata;

/**
 * Returns a prediction for each row; a single output gets the name `score`.
 *
 * @param options `signature`, `signal`, `minProbability` (a less probable class is null), and
 *   `version`, by default the newest.
 */
export async function predict(rows, options = {}) {
  const {signature, signal, minProbability, version} = options;
  const body = {
    ...(signature && {signature_name: signature}),
    ...(minProbability && {min_probability: minProbability}),
  };
  const {predictions} = await call(path + (version ? `/versions/${version}` : "") + ":predict", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, instances: rows}),
    signal,
  });
  return predictions.map((prediction) =>
    typeof prediction === "number" ? {score: prediction} : prediction);
}
