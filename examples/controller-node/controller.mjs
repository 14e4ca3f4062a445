#!/usr/bin/env node
// A controller of a server that is slow to load, over the custody command. It
// does what ../modelserver does: the server outlives it, and the next
// controller takes the server over. There is nothing to install or to build.

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";

const NAME = "db";

const { values: opt } = parseArgs({
  options: {
    data: { type: "string" }, // keep the database in this directory; else in a temporary one, that goes with the server
    port: { type: "string", default: "5432" },
    bin: { type: "string", default: "/usr/lib/postgresql/15/bin" },
    stop: { type: "boolean" }, // end the server and what it owns, whoever controls it
  },
});
process.env.PATH = `${opt.bin}:${process.env.PATH}`;

// Makes the database, and becomes the server. What is half made when it is
// ended is never taken for a whole one.
const LOADING = `cd "$DATA" || exit
if ! [ -d db ]; then
  rm -rf new
  echo "$PGPASSWORD" | initdb -D new -U postgres -A scram-sha-256 --pwfile=/dev/stdin --no-locale -E UTF8 || exit
  mv new db || exit
fi
exec postgres -D db -c unix_socket_directories= "$@"`;

const over = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => over.abort());

/**
 * Runs custody. What it prints is JSON; so is what it says of an error.
 * @param {string[]} args
 * @returns {Promise<any>}
 */
async function custody(...args) {
  try {
    const { stdout } = await promisify(execFile)("custody", ["--json", "--scope", "controller-node", ...args], { signal: over.signal });
    return JSON.parse(stdout);
  } catch (e) {
    over.signal.throwIfAborted();
    if (e.stdout) return JSON.parse(e.stdout); // wait exits as the server did
    if (!e.stderr) throw e;
    const { error, kind } = JSON.parse(e.stderr);
    throw Object.assign(new Error(error), { kind });
  }
}

/** @param {string} text */
const log = (text) => console.error(new Date().toISOString(), text);

/** @param {{code: number, signal?: string}} exit */
const how = (exit) => (exit.signal ? `signal ${exit.signal}` : `exit status ${exit.code}`);

/** Takes over the server that an earlier controller left, if there is one. */
async function find() {
  const st = await custody("adopt", NAME, "--owner", String(process.pid)).catch((e) => {
    if (e.kind !== "not-found") throw e;
  });
  if (!st) return undefined;
  if (st.state !== "running") {
    log(`server had ended: ${st.exit ? how(st.exit) : st.reason}`);
    return undefined;
  }
  log(`adopted launch=${st.id.slice(0, 8)} pid=${st.pid}`);
  return st;
}

async function start() {
  const data = opt.data ? ["--env", `DATA=${opt.data}`] : ["--temp-dir", "DATA"];
  const plan = ["INT:20s", "QUIT:5s", "KILL:5s"].flatMap((p) => ["--phase", p]); // fast shutdown, immediate shutdown
  const st = await custody("start", "--name", NAME, "--port", opt.port, "--owner", String(process.pid), ...plan, ...data,
    "--", "sh", "-c", LOADING, "sh", "-h", "127.0.0.1", "-p", opt.port);
  log(`started launch=${st.id.slice(0, 8)} pid=${st.pid}`);
  return st;
}

/** Waits until the port is proven to be the server's, and the server takes connections there. */
async function ready(st) {
  for (;;) {
    await custody("ready", st.id);
    try {
      await promisify(execFile)("pg_isready", ["-q", "-h", "127.0.0.1", "-p", opt.port]);
      return log(`ready launch=${st.id.slice(0, 8)} pid=${st.pid} at 127.0.0.1:${opt.port}`);
    } catch {
      await sleep(50, undefined, { signal: over.signal });
    }
  }
}

/** Keeps a server running until somebody stops it. */
async function run() {
  for (let st = await find(); ; st = undefined) {
    st ??= await start();
    await ready(st);
    const exit = await custody("wait", st.id);
    if (exit.code === 0) return; // it was stopped
    log(`server ended: ${how(exit)}`);
  }
}

try {
  if (opt.stop) {
    const res = await custody("stop", NAME);
    log(`${res.outcome}: ${res.signalled.length} processes signalled, freed ${res.freed}`);
  } else await run();
} catch (e) {
  if (!over.signal.aborted) {
    log(e.message);
    process.exitCode = 1;
  }
}
