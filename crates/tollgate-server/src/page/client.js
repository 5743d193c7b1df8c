// Requests to the server, and its stream of events. The token is kept by this tab alone.

const TOKEN = "tollgate-token";

/** Sets the token of all requests; an empty one forgets it. */
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

/** An answer that is no success; `status` is that of HTTP. */
export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const field = problem.field ? `${problem.field} ` : "";
  throw new Problem(response.status, `${field}${problem.detail ?? response.statusText}`);
}

/** Reads JSON. */
export const get = async (path) => (await request(path)).json();

/** Sends JSON and reads JSON. */
export async function post(path, body) {
  return (await request(path, { method: "POST", body: JSON.stringify(body) })).json();
}

/**
 * Calls `receive` with each status, until the connection ends. A text that does not arrive for five
 * seconds is a connection that has ended: the server sends one per second.
 */
export async function follow(receive, opened) {
  const abort = new AbortController();
  const response = await request("v1/events", { signal: abort.signal });
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const silence = setTimeout(() => abort.abort(), 5000);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) receive(JSON.parse(data.slice("data: ".length)));
    }
  }
}
