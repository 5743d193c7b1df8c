// Uses the page as an operator does, in a real browser. Arguments: the browser, the address of a
// server without tokens, that of one with tokens, and its token of a caller.
"use strict";

const assert = require("node:assert");
const { chromium } = require("playwright-core");

const [program, open, guarded, token] = process.argv.slice(2);
const HOSTILE = `<img src=x onerror="window.ran=1"><script>window.ran=1</script>'&"`;
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

async function post(server, path, body, bearer) {
  const headers = bearer ? { authorization: `Bearer ${bearer}` } : {};
  const options = { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(new URL(path, server), options)).json();
}

/** Spends until a key is denied. */
async function deny(policy, key) {
  for (;;) {
    const { allowed } = await post(open, "/v1/acquire", { policy, key });
    if (!allowed) return;
  }
}

/** A page of a browser; what it complains about and what it asks of others is collected. */
async function visit(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) wrong.push(`asks ${request.url()}`);
  });
  const response = await page.goto(url);
  return { page, wrong, response, close: () => context.close() };
}

const cells = (page, table) => page.locator(`#${table} tbody tr`);

async function showsWhatHappens(browser) {
  const { page, wrong, close } = await visit(browser, open);
  await page.locator("#main").waitFor();
  await page.locator("#connection[data-state=live]").waitFor();
  assert.match(await page.locator("#headline").textContent(), /Nothing is denied/);

  await deny("login", "ada");
  await cells(page, "denials").filter({ hasText: "ada" }).first().waitFor({ timeout: 2000 });
  const row = await cells(page, "denials").filter({ hasText: "ada" }).first().innerText();
  assert.match(row, /login\s+minute\s+ada/, "the limit that denied is named");
  await page.locator("#headline", { hasText: "most under login" }).waitFor({ timeout: 5000 });
  await page.locator("#throttled li", { hasText: "ada" }).waitFor({ timeout: 5000 });
  await page.locator("#spenders li", { hasText: "ada" }).waitFor({ timeout: 5000 });

  for (const kind of ["denied", "allowed"]) {
    const line = page.locator(`#plots path.line.${kind}`);
    await page.waitForFunction((path) => (path.getAttribute("d") ?? "").includes("L"),
      await line.elementHandle());
  }
  // A plot that ends in a sample of some milliseconds would fall to zero every ten seconds.
  const spans = await page.evaluate(async () => {
    const { settled } = await import("/page/plot.js");
    return settled([{ span_ms: 10_000 }, { span_ms: 400 }]).map(({ span_ms }) => span_ms);
  });
  assert.deepStrictEqual(spans, [10_000]);
  assert.deepStrictEqual(wrong, []);
  await close();
}

async function showsHostileKeysAsText(browser) {
  await deny("login", HOSTILE);
  const { page, wrong, close } = await visit(browser, open);
  for (const list of ["#denials td.key", "#throttled code", "#spenders code"]) {
    await page.locator(list).filter({ hasText: HOSTILE }).first().waitFor({ timeout: 5000 });
  }
  await search(page, HOSTILE);
  await page.locator("#standing .card").first().waitFor();
  assert.strictEqual(await page.evaluate(() => window.ran), undefined);
  assert.strictEqual(await page.locator("img").count(), 1, "the icon alone");
  assert.deepStrictEqual(wrong, []);
  await close();
}

async function permitsNoOtherScript(browser) {
  const { page, response, close } = await visit(browser, open);
  const policy = response.headers()["content-security-policy"];
  assert.match(policy, /^default-src 'none';/);
  assert.doesNotMatch(policy, /unsafe|data:|\*/);
  await page.evaluate(() => {
    const script = document.createElement("script");
    try { script.textContent = "window.ran = 1"; } catch { /* text must be trusted */ }
    document.head.append(script);
    try { document.body.innerHTML = "<p>"; } catch (error) { window.refused = error.name; }
  });
  assert.strictEqual(await page.evaluate(() => window.ran), undefined);
  assert.strictEqual(await page.evaluate(() => window.refused), "TypeError");
  await close();
}

async function search(page, key) {
  await page.locator("#main").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.insertText(key);
  await page.keyboard.press("Enter");
}

async function worksByKeyboard(browser) {
  const { page, wrong, close } = await visit(browser, open);
  await search(page, "ada");
  const card = page.locator("#standing .card", { has: page.locator("h3", { hasText: "login" }) });
  await card.waitFor();
  const text = await card.innerText();
  assert.match(text, /would be denied by minute/);
  assert.match(text, /0 of 3 left\s+full again in /);
  assert.match(text, /Last denials\s+\d\d:\d\d:\d\d: 1 unit by minute/);
  assert.match(await page.locator("#standing").innerText(), /api[^]*1 unit: would pass/);

  await page.locator("#plots").focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator("#plots").getAttribute("data-reading"), /^\d\d:\d\d:\d\d$/);
  const choose = page.locator("#policies button", { hasText: "login" });
  await choose.focus();
  await page.keyboard.press("Enter");
  assert.strictEqual(await choose.getAttribute("aria-pressed"), "true");
  assert.strictEqual(await page.locator("#policy").inputValue(), "login");

  await page.locator("#cost").fill("7");
  await page.locator("#search-form button").press("Enter");
  await card.getByText("never, it is too much at once").waitFor();
  // Without tokens, every client of a loopback address may reset.
  const reset = card.locator("button");
  await reset.press("Enter");
  await reset.press("Enter");
  await card.getByText("3 of 3 left").waitFor();
  await page.keyboard.press("Escape");
  assert.strictEqual(await page.locator("#standing").innerText(), "");
  assert.deepStrictEqual(wrong, []);
  await close();
}

async function fitsAPhoneAndTheNight(browser) {
  const phone = { viewport: { width: 360, height: 740 }, colorScheme: "dark" };
  const { page, wrong, close } = await visit(browser, open, phone);
  await search(page, "ada");
  await page.locator("#standing .card").first().waitFor();
  const [wide, colour] = await page.evaluate(() => {
    const isWide = (one) => one.getBoundingClientRect().right > 360;
    const wide = [...document.querySelectorAll("body *")].filter(isWide);
    const names = wide.map((one) => `${one.tagName} ${one.id} ${one.textContent.slice(0, 40)}`);
    const { scrollWidth } = document.documentElement;
    return [scrollWidth > 360 ? [scrollWidth, ...names] : [],
      getComputedStyle(document.body).backgroundColor];
  });
  assert.deepStrictEqual(wide, [], "too wide");
  const light = colour.match(/\d+/g).map(Number).reduce((a, b) => a + b);
  assert.ok(light < 200, `${colour} is not dark`);
  assert.deepStrictEqual(wrong, []);
  await close();
}

/** Every colour of text against every background, by WCAG 2.2: at least 4.5 to 1. */
async function isReadable(browser) {
  for (const colorScheme of ["light", "dark"]) {
    const { page, close } = await visit(browser, open, { colorScheme });
    const low = await page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const brightness = (name) => {
        const hex = style.getPropertyValue(`--${name}`).trim();
        const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
        const [red, green, blue] = parts.map((part) =>
          (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const inks = ["ink", "quiet", "accent", "allowed", "denied", "degraded", "errors", "good"];
      return ["paper", "raised"].flatMap((back) => inks.flatMap((ink) => {
        const [less, more] = [brightness(ink), brightness(back)].sort((a, b) => a - b);
        const contrast = (more + 0.05) / (less + 0.05);
        return contrast >= 4.5 ? [] : [`${ink} on ${back}: ${contrast.toFixed(2)}`];
      }));
    });
    assert.deepStrictEqual(low, [], colorScheme);
    await close();
  }
}

async function needsAToken(browser) {
  const { page, wrong, close } = await visit(browser, guarded);
  const sign = async (text) => {
    await page.locator("#token").fill(text);
    await page.locator("#token").press("Enter");
  };
  await page.locator("#sign-in").waitFor();
  assert.ok(await page.locator("#main").isHidden());
  assert.strictEqual(await page.locator("#token-problem").innerText(), "");
  await sign("this-token-is-wrong");
  await page.locator("#token-problem", { hasText: "is not accepted" }).waitFor();
  assert.ok(await page.locator("#main").isHidden());
  await sign(token);
  await page.locator("#main").waitFor();
  await page.reload();
  await page.locator("#connection[data-state=live]").waitFor();

  await search(page, "ada");
  const reset = page.locator("#standing .card button").first();
  await reset.press("Enter");
  await reset.press("Enter");
  await page.locator("#standing .problem", { hasText: "administrator" }).waitFor();
  const other = wrong.filter((text) => !/status of 40[13]/.test(text));
  assert.deepStrictEqual(other, []);
  await close();
}

async function main() {
  const browser = await chromium.launch({ executablePath: program, args: ARGS });
  try {
    const tests = [showsWhatHappens, showsHostileKeysAsText, permitsNoOtherScript, worksByKeyboard,
      fitsAPhoneAndTheNight, isReadable, needsAToken];
    for (const test of tests) {
      await test(browser);
      console.log(test.name);
    }
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
