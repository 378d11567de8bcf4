"""Durable work from Flask, which is not async: `app.sync` has everything, without `await`.

Run the site with `flask --app examples/flask_app/app.py run` and the worker with `python examples/flask_app/app.py`.
"""

import asyncio
import os

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue

from flowfabric import FlowFabric, FlowFabricError, TaskFailed, errors

app = FlowFabric(os.environ.get("FF_STORE", "reports.db"))
site = Flask(__name__)


@app.task(retries=3, timeout="10m")
def report(month: str) -> dict[str, int | str]:
    """Make a report; a plain function runs in a thread of the worker."""
    return {"month": month, "rows": len(month)}


@site.post("/reports/<month>")
def start(month: str) -> ResponseReturnValue:
    """Start one for each month, however often the button is pressed."""
    run = app.sync.options(key=f"report-{month}").submit(report, month)
    return jsonify(run=run.id), 202


@site.get("/reports/<run_id>")
def look(run_id: str) -> ResponseReturnValue:
    """Return the report, or say that it is not ready."""
    run = app.sync.run(run_id)
    try:
        return jsonify(run.result(timeout="5s"))
    except TimeoutError:
        return jsonify(state=run.status().state), 202
    except TaskFailed as failure:
        return jsonify(error=failure.reason), 500


@site.errorhandler(errors.NotFound)
@site.errorhandler(errors.InvalidInput)
def missing(error: FlowFabricError) -> ResponseReturnValue:
    """Answer for a run that is not there, or no longer, and for what is no id at all."""
    return jsonify(error=str(error)), 404


if __name__ == "__main__":
    asyncio.run(app.worker().run())
