// Writes the request of a row for other clients.

import {grpcPort, model, needsToken, path} from "/page/api.js";

const quoteForShell = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
// JSON of names and texts is also valid Python.
const literal = (value) => JSON.stringify(value);

function writeCurl(row, fields) {
  const body = quoteForShell(JSON.stringify({instances: [row], ...fields}));
  const header = needsToken ? '-H "Authorization: Bearer $TOKEN" ' : "";
  return `curl ${header}-d ${body} \\\n    ${quoteForShell(location.origin + path + ":predict")}`;
}

function writeDictionary(row) {
  const lines = Object.entries(row).map(([name, value]) =>
    `    ${literal(name)}: ${literal(value)},\n`);
  return `{\n${lines.join("")}}`;
}

function writePython(row, fields) {
  const others = Object.entries(fields).map(([name, value]) => `, ${literal(name)}: ${value}`);
  const header = needsToken ? ', "Authorization": "Bearer " + os.environ["TOKEN"]' : "";
  return `import json
${needsToken ? "import os\n" : ""}import urllib.request

row = ${writeDictionary(row)}
request = urllib.request.Request(
    ${literal(location.origin + path + ":predict")},
    json.dumps({"instances": [row]${others.join("")}}).encode(),
    {"Content-Type": "application/json"${header}},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["predictions"][0])
`;
}

function writeGrpc(row, types) {
  const tensors = Object.keys(row).map((name) =>
    `request.inputs[${literal(name)}].CopyFrom(\n` +
    `    tf.make_tensor_proto([row[${literal(name)}]], tf.as_dtype(types_pb2.${types[name]}))\n)\n`);
  const isSecure = location.protocol === "https:";
  const address = literal(location.hostname + ":" + grpcPort);
  const channel = isSecure
    ? `grpc.secure_channel(${address}, grpc.ssl_channel_credentials())`
    : `grpc.insecure_channel(${address})`;
  const metadata = needsToken
    ? ', metadata=[("authorization", "Bearer " + os.environ["TOKEN"])]' : "";
  return `${needsToken ? "import os\n\n" : ""}import grpc
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

row = ${writeDictionary(row)}
channel = ${channel}
stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
request = predict_pb2.PredictRequest(model_spec={"name": ${literal(model)}})
${tensors.join("")}for name, tensor in stub.Predict(request${metadata}).outputs.items():
    print(name, tf.make_ndarray(tensor)[0])
`;
}

/**
 * Returns the requests of a row by the name of their tab.
 *
 * Of a least probability, which only the JSON API has, there is no request over gRPC.
 */
export function writeRequests(row, link, types, minProbability) {
  const fields = minProbability ? {min_probability: minProbability} : {};
  const requests = {Link: link, curl: writeCurl(row, fields), Python: writePython(row, fields)};
  return grpcPort && !minProbability ? {...requests, gRPC: writeGrpc(row, types)} : requests;
}
