// The entry of a Worker, for tests. As the shim of worker-build, it replaces the WebAssembly instance
// after a panic, and with it the Durable Objects that live in the old one.

import * as worker from "./index.js";

const state = worker.__worker_init_state();

/** Replaces the instance if it has panicked. */
function renew() {
  if (state.criticalError) {
    worker.__wbg_reset_state();
    state.criticalError = false;
    state.instanceId += 1;
  }
}

function note(error) {
  if (error instanceof WebAssembly.RuntimeError) {
    console.error(error.stack);
    state.criticalError = true;
  }
}

// A panic in a future that was polled by a task is no exception of any call.
addEventListener("error", (event) => note(event.error));

async function guarded(call) {
  renew();
  try {
    return await call();
  } catch (error) {
    note(error);
    throw error;
  }
}

const handlers = {};
for (const name of ["fetch", "scheduled", "queue"]) {
  if (worker[name]) {
    handlers[name] = (event, env, ctx) => guarded(() => worker[name](event, env, ctx));
  }
}
export default handlers;

/** A class of Durable Objects that are made again after a panic. */
function durable(Class) {
  class Renewed {
    constructor(ctx, env) {
      renew();
      this.make = () => new Class(ctx, env);
      this.current();
    }

    current() {
      if (this.instanceId !== state.instanceId) {
        this.instance = this.make();
        this.instanceId = state.instanceId;
      }
      return this.instance;
    }
  }
  for (const name of Object.getOwnPropertyNames(Class.prototype)) {
    if (name !== "constructor" && name !== "free" && !name.startsWith("__")) {
      Renewed.prototype[name] = function (...values) {
        return guarded(() => this.current()[name](...values));
      };
    }
  }
  return Renewed;
}

// The build appends the exported classes.
