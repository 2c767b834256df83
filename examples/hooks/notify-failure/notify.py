"""A notification: note every tool that failed, in the result's receipt and in a file.

The file is written where the operator's configuration grants it, see README.md beside this
folder; without that grant only the message is given.
"""

import datetime
import json
import os
import sys

event = json.load(sys.stdin)
tool = event["tool"]
code = tool["result"].get("code", "no code")
message = f"{tool['identity']} failed: {code}"

try:
    with open(os.path.join(event["cwd"], ".raw-failures.log"), "a", encoding="utf-8") as log:
        log.write(f"{datetime.datetime.now(datetime.UTC).isoformat()} {message}\n")
except OSError:
    message += " (not granted: .raw-failures.log)"

print(json.dumps({"decision": "continue", "message": message}))
