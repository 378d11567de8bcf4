"""Durable work from Django views, in one file; in a project of yours the parts go where they belong.

Run the site with `python examples/django_app/app.py runserver` and the worker with `… app.py work`.
"""

import asyncio
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

from flowfabric import FlowFabric, SyncContext, errors

# settings.py
settings.configure(
    DEBUG=True,
    SECRET_KEY="for the example only",  # noqa: S106
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
)
django.setup()

# tasks.py
app = FlowFabric(os.environ.get("FF_STORE", "invoices.db"))


def number_of(customer: str) -> str:
    """Stand for a query through the ORM: steps of a plain function run in threads, where the ORM may be used."""
    return f"{customer}-1"


@app.task(retries=3)
def invoice(ctx: SyncContext, customer: str) -> str:
    """Write an invoice, and send it when somebody has looked at it."""
    number = ctx.step("number", number_of, customer)
    answer = ctx.wait_for_signal("approve", timeout="7d", name="check")
    return f"{number} sent, checked by {answer.source}"


# views.py
@require_POST
def start(_: HttpRequest, customer: str) -> HttpResponse:
    """Start an invoice. Inside a transaction, do this in `transaction.on_commit`."""
    return JsonResponse({"run": app.sync.submit(invoice, customer).id}, status=202)


@require_POST
def approve(request: HttpRequest, run_id: str) -> HttpResponse:
    """Let it go. In a project of yours `by` is `request.user`."""
    try:
        app.sync.run(run_id).approve(by=request.headers.get("X-User", "somebody"), within="20s")
    except errors.Conflict as error:  # it has ended, or waits for something else
        return JsonResponse({"error": str(error)}, status=409)
    return HttpResponse(status=204)


def look(_: HttpRequest, run_id: str) -> HttpResponse:
    """Say how it went, or that it goes on."""
    run = app.sync.run(run_id)
    try:
        return JsonResponse({"result": run.result(timeout="5s")})
    except TimeoutError:
        return JsonResponse({"state": run.status().state}, status=202)
    except (errors.NotFound, errors.InvalidInput) as error:  # it is not kept any more, or no id at all
        return JsonResponse({"error": str(error)}, status=404)


# urls.py
urlpatterns = [
    path("invoices/<str:customer>/start", start),
    path("runs/<str:run_id>/approve", approve),
    path("runs/<str:run_id>", look),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:  # in a project of yours: a management command of these two lines
        asyncio.run(app.worker().run())
    else:
        execute_from_command_line(sys.argv)
