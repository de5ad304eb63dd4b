#!/usr/bin/env bash
# Lints the manifests FILES, in the cluster of the file SNAPSHOT if it is given: writes the SARIF file, then an annotation for
# each finding, as GitHub's runner reads them from the output. Fails as rebalancer lint does.
set -euo pipefail

read -ra files <<<"$FILES"
flags=()
if [[ -n "${SNAPSHOT:-}" ]]; then
  flags+=(--snapshot "$SNAPSHOT")
fi

rebalancer lint "${flags[@]}" --fail-on never --output sarif "${files[@]}" >"$SARIF" ||
  [[ -s "$SARIF" ]] # it has what is found in the other files where some cannot be read
python3 - "$SARIF" <<'EOF'
import json
import sys

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def escape(text):
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


with open(sys.argv[1], encoding="utf-8") as file:
    results = json.load(file)["runs"][0]["results"]
for result in results:
    place = result["locations"][0]["physicalLocation"]
    uri, line = place["artifactLocation"]["uri"], place["region"]["startLine"]
    name = escape(uri).replace(":", "%3A").replace(",", "%2C")
    print(f"::{LEVELS[result['level']]} file={name},line={line},title={result['ruleId']}::{escape(result['message']['text'])}")
EOF
rebalancer lint "${flags[@]}" --fail-on "$FAIL_ON" "${files[@]}"
