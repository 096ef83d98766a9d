"""The programs that run a linter inside the sandbox: each reads a file beside it and prints what was found as JSON.

The answer is only read, never run. What it says of itself (`noqa`, `eslint-disable`) does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RUFF = """
import collections, json, os, pathlib, subprocess, sys, tokenize

name, config, _ = sys.argv[1:]
try:
    import ruff
except ImportError:
    sys.exit(print(json.dumps({"missing": True})))
places = [os.path.join(folder, "bin", "ruff") for folder in map(str, pathlib.Path(ruff.__file__).parents)]
program = next((place for place in places if os.path.isfile(place)), None)
if program is None:
    sys.exit(print(json.dumps({"missing": True})))
chosen = ["--config", config] if config else ["--isolated"]
options = ["--no-cache", "--no-fix", "--ignore-noqa", "--output-format=json"]
done = subprocess.run([program, "check", *options, *chosen, name], capture_output=True, text=True,
                      env={"RAYON_NUM_THREADS": "1", "HOME": "/tmp"})
if done.returncode not in (0, 1):
    sys.exit(print(json.dumps({"failed": done.stderr[-2000:] or f"exit status {done.returncode}"})))
found = json.loads(done.stdout)
broken = [f for f in found if f["code"] in (None, "invalid-syntax", "E999")]
aside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
lines = set()
if not broken:
    with open(name, "rb") as file:
        try:
            for token in tokenize.tokenize(file.readline):
                if token.type not in (*aside, tokenize.ENCODING):
                    lines.add(token.start[0])
        except (tokenize.TokenError, SyntaxError):  # of a Python later than this one
            file.seek(0)
            lines = {number for number, line in enumerate(file) if line.strip() and line.strip()[:1] != b"#"}
print(json.dumps({
    "lines": len(lines),
    "broken": broken[0]["message"][:200] if broken else None,
    "rules": collections.Counter(str(f["code"]) for f in found),
}))
"""

ESLINT = """
const fs = require("fs"), path = require("path");
const [name, config, modules] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const places = [modules, "/usr/local/lib/node_modules", "/usr/lib/node_modules"].filter(Boolean);
const place = places.find((folder) => fs.existsSync(path.join(folder, "eslint", "package.json")));
async function lint() {
  fs.symlinkSync(place, "node_modules");
  const { ESLint } = require(path.join(place, "eslint"));
  const linter = new ESLint({ overrideConfigFile: config, allowInlineConfig: false });
  const [{ messages }] = await linter.lintFiles([name]);
  const ignored = messages.find((m) => !m.fatal && m.ruleId === null);
  if (ignored) throw new Error(ignored.message);
  const broken = messages.find((m) => m.fatal), rules = {};
  const text = fs.readFileSync(name, "utf8").replace(/\\/\\*[^]*?\\*\\//g, "");
  const lines = text.split("\\n").filter((line) => line.trim() && !line.trim().startsWith("//")).length;
  for (const m of messages) rules[m.ruleId] = (rules[m.ruleId] || 0) + 1;
  say({ lines, broken: broken ? broken.message.slice(0, 200) : null, rules });
}
if (!place) say({ missing: true });
else lint().catch((error) => say({ failed: String(error.message).slice(0, 2000) }));
"""


@dataclass(frozen=True, kw_only=True)
class Linter:
    """`source` is a program of `language`, run with the answer's file, the configuration's and a folder of modules;
    `language` is also that of the answer; `absent` says what to do where the sandbox does not show the linter. A line
    counts where code begins on it, so that comments and long strings do not thin the findings out."""

    language: str
    file: str
    source: str
    absent: str


LINTERS: Mapping[str, Linter] = {
    "ruff": Linter(
        language="python",
        file="answer.py",
        source=RUFF,
        absent='pip install ruff, and name it in the recipe: [sandbox] packages = ["ruff"]',
    ),
    "eslint": Linter(
        language="javascript",
        file="answer.js",
        source=ESLINT,
        absent="npm install -g eslint, or give modules, the node_modules folder it is in, which the mounts of a "
        "[[sandbox.languages]] entry must show",
    ),
}
