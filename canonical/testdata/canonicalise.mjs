// The other side of TestNodeDifferential: canonical JSON by JSON.parse and
// JSON.stringify. Reads one base64 text a line from standard input; answers
// each with "+" and the canonical form, or "-" when it is refused.
//
// Run with --stack-size=4000: JSON texts may be 10,000 levels deep.

const MAX_DEPTH = 10000;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// tooDeep counts brackets outside strings. JSON.parse has no limit of its own.
function tooDeep(text) {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (inString) {
      if (c === '\\') i++;
      else if (c === '"') inString = false;
    } else if (c === '"') {
      inString = true;
    } else if (c === '[' || c === '{') {
      if (++depth > MAX_DEPTH) return true;
    } else if (c === ']' || c === '}') {
      depth--;
    }
  }
  return false;
}

function canonical(value) {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new RangeError('number overflows'); // JSON.stringify would print null
  }
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return '[' + value.map(canonical).join(',') + ']';
  const names = Object.keys(value).sort(); // by UTF-16 code units
  return '{' + names.map((n) => JSON.stringify(n) + ':' + canonical(value[n])).join(',') + '}';
}

function answer(line) {
  try {
    const text = decoder.decode(Buffer.from(line, 'base64'));
    const value = JSON.parse(text);
    return tooDeep(text) ? '-' : '+' + canonical(value);
  } catch (e) {
    const expected = e instanceof SyntaxError || e instanceof RangeError || e.code === 'ERR_ENCODING_INVALID_ENCODED_DATA';
    if (!expected || /call stack/.test(e.message)) throw e; // a fault of this script, not of the text
    return '-';
  }
}

let rest = '';
for await (const data of process.stdin.setEncoding('latin1')) {
  const lines = (rest + data).split('\n');
  rest = lines.pop();
  if (lines.length > 0 && !process.stdout.write(lines.map(answer).join('\n') + '\n')) {
    await new Promise((resolve) => process.stdout.once('drain', resolve));
  }
}
