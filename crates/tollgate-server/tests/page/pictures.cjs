// Draws the pictures of docs/page.md: puts load on a server for some minutes, and takes them at the
// end. Arguments: the browser, the address of a server with tests/page/pictures.yaml, how many
// seconds, and the folder.
"use strict";

const path = require("node:path");
const { chromium } = require("playwright-core");

const [program, server, seconds, folder] = process.argv.slice(2);
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** Requests per second of each policy, and among how many keys. */
const LOAD = { api: [260, 400], login: [12, 90], search: [70, 150] };

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const key = (keys) => `user:${Math.floor(keys ** Math.random())}`;

async function spend(second) {
  const burst = second > 0.55 * seconds && second < 0.7 * seconds ? 6 : 1;
  const wave = 1 + 0.2 * Math.sin(second / 25);
  const requests = Object.entries(LOAD).flatMap(([policy, [rate, keys]]) => {
    const count = Math.round(rate * wave * (0.9 + 0.2 * Math.random()));
    const more = policy === "login" ? burst : 1;
    return Array.from({ length: count * more }, () => ({ policy, key: key(keys) }));
  });
  const body = JSON.stringify({ requests });
  await fetch(new URL("/v1/acquire_many", server), { method: "POST", body });
}

async function take(browser, name, options, act = async () => {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.goto(server);
  await page.locator("#main").waitFor();
  for (let second = 0; second < 7; second += 1) await Promise.all([spend(1), pause(1000)]);
  await act(page);
  await page.screenshot({ path: path.join(folder, name) });
  await context.close();
}

async function lookUp(page) {
  await page.keyboard.press("/");
  await page.keyboard.insertText("user:1");
  await page.keyboard.press("Enter");
  await page.locator("#standing .card").first().waitFor();
  await page.locator("#search-title").evaluate((title) => title.scrollIntoView());
}

async function main() {
  for (let second = 0; second < seconds; second += 1) {
    await Promise.all([spend(second), pause(1000)]);
  }
  const browser = await chromium.launch({ executablePath: program, args: ARGS });
  await take(browser, "page.png", { viewport: { width: 1120, height: 1480 } });
  const dark = { viewport: { width: 1120, height: 860 }, colorScheme: "dark" };
  await take(browser, "page-dark.png", dark);
  await take(browser, "page-phone.png", { viewport: { width: 390, height: 844 } }, lookUp);
  await browser.close();
}

main();
