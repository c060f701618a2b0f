// Verifies Pawl receipts with nothing but Node: no package, no network, no
// database, and no code shared with the engine.
//
//   node verify.mjs --key receipt.pub.pem [--key older.pub.pem] receipts.jsonl
//
// One envelope to a line. Prints every refused line and a count. Exit status:
// 0 if every line is a genuine receipt and there is at least one, 1 if not,
// 2 if it was called wrongly.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
const ALGORITHM = 'sha256:dreamnet-sorted-json:v0';
const MAX_LINE = 1 << 20;

// Canonical JSON: members sorted by UTF-16 code units, no white space, strings
// and numbers as JSON.stringify writes them.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const names = Object.keys(value).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${names.map((n) => `${JSON.stringify(n)}:${canonical(value[n])}`).join(',')}}`;
  }
  if (typeof value === 'number' && !Number.isFinite(value)) throw new Error('a number that a double cannot hold');
  return JSON.stringify(value);
}

const hash = (data) => createHash('sha256').update(data).digest('hex');
const stamped = (value) => `${ALGORITHM}:${hash(canonical(value))}`;

const text = (bytes) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);

function demand(condition, check, problem) {
  if (!condition) throw new Error(`${check}: ${problem}`);
}

// parse accepts canonical text only. That also refuses duplicate names and
// anything after the value, because neither survives being written again.
function parse(source, what) {
  let value;
  try {
    value = JSON.parse(source);
  } catch {
    throw new Error(`schema: ${what} is not JSON`);
  }
  demand(canonical(value) === source, 'schema', `${what} is not in its exact canonical form`);
  return value;
}

function fields(object, what, required, optional = []) {
  demand(object !== null && typeof object === 'object' && !Array.isArray(object), 'schema', `${what} is not an object`);
  for (const name of required) demand(Object.hasOwn(object, name), 'schema', `${what}.${name} is missing`);
  for (const name of Object.keys(object)) {
    demand(required.includes(name) || optional.includes(name), 'schema', `${what}.${name} is not a field of this schema`);
  }
}

function strings(object, what, names) {
  for (const n of names) {
    demand(typeof object[n] === 'string' && object[n] !== '', 'schema', `${what}.${n} is not a text`);
    demand(object[n].isWellFormed(), 'schema', `${what}.${n} is not Unicode text`);
  }
}

function base64(source, what) {
  const bytes = Buffer.from(source, 'base64');
  demand(bytes.toString('base64') === source, 'schema', `${what} is not base64 in its only spelling`);
  return bytes;
}

// envelope checks the DSSE signature, then what was signed.
function envelope(line, keys) {
  const e = parse(line, 'envelope');
  fields(e, 'envelope', ['payload', 'payloadType', 'signatures']);
  strings(e, 'envelope', ['payload', 'payloadType']);
  demand(forms.has(e.payloadType), 'schema', `payload type ${e.payloadType} is unknown`);
  demand(Array.isArray(e.signatures) && e.signatures.length === 1, 'schema', 'envelope needs exactly one signature');
  const [s] = e.signatures;
  fields(s, 'signature', ['keyid', 'sig']);
  strings(s, 'signature', ['keyid', 'sig']);
  const body = base64(e.payload, 'payload');
  const key = keys.get(s.keyid);
  demand(key, 'signature', `no trusted key has the id ${s.keyid}`);
  const header = Buffer.from(`DSSEv1 ${Buffer.byteLength(e.payloadType)} ${e.payloadType} ${body.length} `);
  demand(verify(null, Buffer.concat([header, body]), key, base64(s.sig, 'signature')), 'signature', 'does not match the content');
  forms.get(e.payloadType)(parse(text(body), 'receipt'));
}

function receipt(r) {
  const top = ['schemaVersion', 'receiptId', 'issuer', 'issuedAt', 'digest', 'verificationStatus'];
  fields(r, 'receipt', [...top, 'spore', 'provenance']);
  strings(r, 'receipt', top);
  demand(r.schemaVersion === 'dreamnet.receipt.v1', 'schema', `${r.schemaVersion} is unknown`);
  demand(r.verificationStatus === 'unverified', 'schema', 'a receipt cannot vouch for itself');
  fields(r.provenance, 'provenance', ['method'], ['endpoint', 'query']);
  strings(r.provenance, 'provenance', Object.keys(r.provenance));
  const s = r.spore;
  const inner = ['schemaVersion', 'subjectKey', 'kind', 'contentHash', 'hashAlg', 'source', 'capturedAt'];
  fields(s, 'spore', [...inner, 'payload']);
  strings(s, 'spore', inner);
  demand(s.schemaVersion === 'dreamnet.spore.v0' && s.hashAlg === ALGORITHM, 'schema', 'spore of an unknown kind');
  const { kind, payload, subjectKey, contentHash } = s;
  demand(contentHash === stamped({ kind, payload, subjectKey }), 'content_integrity', 'contentHash does not recompute');
  demand(r.digest === stamped({ contentHash, issuer: r.issuer, kind, subjectKey }), 'identity', 'digest does not recompute');
}

// interchange is receipt.v1. It carries the hash of its content only.
function interchange(r) {
  const all = ['schemaVersion', 'receiptId', 'issuerId', 'subjectHash', 'timestamp', 'digest'];
  fields(r, 'receipt', all, ['proofArtifactId']);
  strings(r, 'receipt', Object.keys(r));
  demand(r.schemaVersion === 'receipt.v1', 'schema', `${r.schemaVersion} is unknown`);
  demand(/^[0-9a-f]{64}$/.test(r.subjectHash), 'schema', 'subjectHash is no hash');
  demand(r.digest === hash(canonical({ issuer: r.issuerId, subjectHash: r.subjectHash })), 'identity', 'digest does not recompute');
}

// artifact is proof-artifact.v1. A signature inside it is not checked: the form does not say how it is made.
function artifact(a) {
  const all = ['schemaVersion', 'artifactId', 'creatorId', 'artifactType', 'contentHash', 'createdIso'];
  fields(a, 'artifact', [...all, 'evidenceData'], ['signature']);
  strings(a, 'artifact', Object.hasOwn(a, 'signature') ? [...all, 'signature'] : all);
  demand(a.schemaVersion === 'proof-artifact.v1', 'schema', `${a.schemaVersion} is unknown`);
  const data = a.evidenceData;
  demand(data !== null && typeof data === 'object' && !Array.isArray(data), 'schema', 'evidenceData is not an object');
  demand(a.contentHash === hash(canonical(data)), 'content_integrity', 'contentHash does not recompute');
}

const forms = new Map([
  ['application/vnd.dreamnet.receipt.v1+json', receipt],
  ['application/vnd.dreamnet.interchange-receipt.v1+json', interchange],
  ['application/vnd.dreamnet.proof-artifact.v1+json', artifact],
]);

// lines yields one Buffer a line; null stands for a line too long to be a receipt.
async function* lines(path) {
  let rest = [], size = 0;
  for await (const chunk of createReadStream(path)) {
    for (let from = 0; from < chunk.length; ) {
      const at = chunk.indexOf(10, from);
      const part = chunk.subarray(from, at < 0 ? chunk.length : at);
      size += part.length;
      rest = size > MAX_LINE ? [] : [...rest, part];
      if (at < 0) break;
      yield size > MAX_LINE ? null : Buffer.concat(rest);
      [rest, size, from] = [[], 0, at + 1];
    }
  }
  if (size > 0) yield size > MAX_LINE ? null : Buffer.concat(rest);
}

const keys = new Map();
let file;
for (let i = 2; i < process.argv.length; i++) {
  if (process.argv[i] === '--key') {
    const key = createPublicKey(readFileSync(process.argv[++i]));
    if (key.asymmetricKeyType !== 'ed25519') throw new Error('receipts are signed with Ed25519');
    keys.set(`sha256:${hash(key.export({ type: 'spki', format: 'der' }))}`, key);
  } else file = process.argv[i];
}
if (!file || keys.size === 0) {
  console.error('usage: node verify.mjs --key receipt.pub.pem receipts.jsonl');
  process.exit(2);
}
let number = 0, refused = 0;
for await (const line of lines(file)) {
  number++;
  try {
    demand(line !== null, 'schema', 'the line is too long');
    envelope(text(line), keys);
  } catch (err) {
    refused++;
    console.log(`line ${number}: refused: ${err.message}`);
  }
}
console.log(`${number - refused} verified, ${refused} refused`);
process.exitCode = number > 0 && refused === 0 ? 0 : 1;
