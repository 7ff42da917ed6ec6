"""The pages: home, questionnaire, recommendation, saved profiles, catalogue. Complete without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.advice.recommendation import Recommendation
from app.catalog.loader import Catalog
from app.report.views import recommendation_view
from app.store.actor import LOCAL_ACTOR, Actor
from app.store.database import Store
from app.store.repositories import ConflictError, NotFoundError
from app.web.catalog_tables import KINDS, table_of
from app.web.fields import BY_PATH, QUESTIONS, SUBJECTS, WORKLOADS, fields_for
from app.web.form import MAX_CONFIG, Filled, read_form, values_of
from app.web.templating import page
from app.workload.presets import PRESETS, preset
from app.workload.profile import FieldError, ProfileError, WorkloadProfile, parse_profile

router = APIRouter(include_in_schema=False)
PAGE_SIZE = 50
MAX_NAME = 200


def _catalog(request: Request) -> Catalog:
    catalog: Catalog = request.app.state.catalog
    return catalog


def _actor() -> Actor:
    return LOCAL_ACTOR


def _reading(request: Request) -> Iterator[Store]:
    with request.app.state.database.transaction(read_only=True) as store:
        yield store


def _writing(request: Request) -> Iterator[Store]:
    with request.app.state.database.transaction() as store:
        yield store


async def _form(request: Request) -> dict[str, str]:
    """What was typed. An uploaded config.json stands for its text field when that is empty."""
    values: dict[str, str] = {}
    async with request.form(max_files=2, max_fields=200) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                raw = await value.read(MAX_CONFIG + 1)
                target = name.removesuffix(".file")
                if raw and not values.get(target):
                    values[target] = raw.decode("utf-8", "replace")
            elif name not in values or value:
                values[name] = value
    return values


Typed = Annotated[dict[str, str], Depends(_form)]
CatalogUsed = Annotated[Catalog, Depends(_catalog)]
ActingUser = Annotated[Actor, Depends(_actor)]
Reading = Annotated[Store, Depends(_reading, scope="function")]
Writing = Annotated[Store, Depends(_writing, scope="function")]


@dataclass(frozen=True, slots=True)
class FormView:
    """A form for the template: values, messages and errors."""

    workload: str
    values: Mapping[str, str]
    errors: tuple[FieldError, ...]
    messages: Mapping[str, str]
    submitted: bool


def _form_page(
    catalog: Catalog, filled: Filled, *, status: int = 200, submitted: bool = False, profile_id: str = "", version: str = ""
) -> HTMLResponse:
    form = FormView(filled.workload, filled.values, filled.errors, filled.messages, submitted)
    return page(
        "form.html",
        status,
        form=form,
        workloads=WORKLOADS,
        questions=QUESTIONS,
        subjects=SUBJECTS,
        fields=fields_for(filled.workload),
        models=sorted(catalog.models),
        gpus=sorted(catalog.gpus),
        profile_id=profile_id,
        version=version,
        catalog_version=catalog.version,
    )


@router.get("/")
def home(catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """Presets people recognise, and what was saved last."""
    saved = store.profiles.page(actor, limit=5)
    return page("home.html", presets=PRESETS, saved=saved, catalog_version=catalog.version)


@router.get("/new")
def new(request: Request, catalog: CatalogUsed) -> HTMLResponse:
    """The questionnaire, empty, from a preset or for a kind of work."""
    chosen = preset(request.query_params.get("preset", ""))
    if chosen is not None:
        filled = Filled(workload=chosen.profile.workload, values=values_of(chosen.profile))
        return _form_page(catalog, filled)
    workload = request.query_params.get("workload", "online_inference")
    return _form_page(catalog, Filled(workload=workload if workload in WORKLOADS else "online_inference", values={}))


@router.post("/new")
def again(typed: Typed, catalog: CatalogUsed) -> HTMLResponse:
    """The questionnaire with what was typed, for another kind of work or to change an answer."""
    workload = typed.get("workload", "")
    filled = Filled(workload=workload if workload in WORKLOADS else "online_inference", values=typed)
    return _form_page(catalog, filled, submitted=True, profile_id=typed.get("profile_id", ""), version=typed.get("version", ""))


def _decided(request: Request, filled: Filled, catalog: Catalog) -> Recommendation | Filled:
    """The answer, or the form with the fault the advisor found (an unknown model, say)."""
    if filled.profile is None:
        return filled
    try:
        return _recommend(request, filled.profile, catalog)
    except ProfileError as error:
        known = [item if item.field in BY_PATH else FieldError(_nearest(item.field), item.message, item.limit) for item in error.errors]
        messages = {item.field: item.message for item in reversed(known)}
        return Filled(workload=filled.workload, values=filled.values, errors=tuple(known), messages=messages)


def _nearest(path: str) -> str:
    while path and path not in BY_PATH:
        path = path.rpartition(".")[0]
    return path or "model.id"


def _recommend(request: Request, profile: WorkloadProfile, catalog: Catalog) -> Recommendation:
    answer: Recommendation = request.app.state.recommend(profile, catalog, created_at=datetime.now(UTC), recommendation_id=str(uuid4()))
    return answer


@router.post("/recommendation")
def recommendation(request: Request, typed: Typed, catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """The answer to the form, not kept until it is saved; or the form again, filled in, with what is wrong."""
    filled = read_form(typed)
    profile_id, version = typed.get("profile_id", ""), typed.get("version", "")
    answer = _decided(request, filled, catalog)
    if isinstance(answer, Filled):
        return _form_page(catalog, answer, status=422, submitted=True, profile_id=profile_id, version=version)
    customer = _customer(store, actor, profile_id)
    form_values = {name: value for name, value in typed.items() if name not in ("profile_id", "version", "customer", "name")}
    return _answer_page(catalog, answer, form_values=form_values, profile_id=profile_id, version=version, customer=customer)


def _customer(store: Store, actor: Actor, profile_id: str) -> str:
    if not profile_id:
        return ""
    try:
        return store.profiles.get(actor, profile_id).customer or ""
    except NotFoundError:
        return ""


def _answer_page(catalog: Catalog, answer: Recommendation, **context: Any) -> HTMLResponse:
    defaults: dict[str, Any] = {"stored": None, "form_values": {}, "profile_id": "", "version": "", "customer": ""}
    return page(
        "recommendation.html",
        r=answer,
        view=recommendation_view(answer),
        name=str(answer.profile.get("name") or ""),
        people=people_sentence(answer),
        catalog_version=catalog.version,
        **{**defaults, **context},
    )


def people_sentence(answer: Recommendation) -> str:
    """Heads and what they became, side by side, for profiles that gave heads."""
    people = (answer.profile.get("serving") or {}).get("people")
    if not people:
        return ""
    found = next((item for item in answer.findings if item.rule == "heads-are-not-requests"), None)
    return found.message if found is not None else ""


@router.post("/preview")
def preview(request: Request, typed: Typed, catalog: CatalogUsed) -> HTMLResponse:
    """The verdict of the form as it stands, as a fragment for the page's side."""
    filled = read_form(typed)
    answer = _decided(request, filled, catalog)
    if isinstance(answer, Filled):
        return page("parts/preview.html", errors=answer.errors, r=None, view=None, people="")
    return page("parts/preview.html", errors=(), r=answer, view=recommendation_view(answer), people=people_sentence(answer))


@router.get("/profiles")
def profiles(request: Request, catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """Saved profiles with their last answer."""
    customer = request.query_params.get("customer", "")[:MAX_NAME].replace("\x00", "")
    text = request.query_params.get("offset", "0")
    offset = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    found = store.profiles.page(actor, customer=customer or None, offset=offset, limit=PAGE_SIZE)
    rows = [{"profile": item, "answer": next(iter(store.recommendations.page(actor, profile_id=item.id, limit=1)), None)} for item in found]
    more = offset + PAGE_SIZE if store.profiles.count(actor, customer=customer or None) > offset + PAGE_SIZE else 0
    return page(
        "profiles.html",
        profiles=rows,
        customers=store.customers.names(actor),
        customer=customer,
        more=more,
        workloads=WORKLOADS,
        catalog_version=catalog.version,
    )


@router.post("/profiles")
def save(request: Request, typed: Typed, catalog: CatalogUsed, actor: ActingUser, store: Writing) -> Response:
    """Save the profile (or its next version) under a customer's name, with its answer."""
    filled = read_form(typed)
    profile_id, version = typed.get("profile_id", ""), typed.get("version", "")
    customer = typed.get("customer", "").strip()
    if len(customer) > MAX_NAME or "\x00" in customer:
        filled = _refused(filled, FieldError("name", f"the customer's name must be at most {MAX_NAME} characters", str(MAX_NAME)))
    answer = _decided(request, filled, catalog)
    if isinstance(answer, Filled) or filled.profile is None:
        refused = answer if isinstance(answer, Filled) else filled
        return _form_page(catalog, refused, status=422, submitted=True, profile_id=profile_id, version=version)
    document, name = filled.profile.to_json(), filled.profile.name
    if profile_id:
        expected = int(version) if version.isascii() and version.isdigit() and len(version) < 9 else 0
        try:
            kept = store.profiles.change(
                actor, profile_id, expected_version=expected, name=name, customer=customer or None, document=document
            )
        except ConflictError as error:
            held = _refused(filled, FieldError("name", OVERTAKEN.format(version=error.current), ""))
            return _form_page(catalog, held, status=409, submitted=True, profile_id=profile_id, version=str(error.current))
    else:
        kept = store.profiles.add(actor, name=name, customer=customer or None, document=document)
    store.recommendations.add(actor, profile_id=kept.id, version=kept.version, recommendation=answer)
    return RedirectResponse(f"/recommendations/{answer.id}", status_code=303)


OVERTAKEN = (
    "somebody saved version {version} of this profile while you were typing. What you typed is kept below: ask again and save, "
    "and it becomes the next version"
)


def _refused(filled: Filled, error: FieldError) -> Filled:
    return Filled(workload=filled.workload, values=filled.values, errors=(error, *filled.errors), messages={error.field: error.message})


@router.get("/profiles/{profile_id}")
def profile(profile_id: str, catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """One profile: its versions and its answers."""
    found = store.profiles.get(actor, profile_id)
    return page(
        "profile.html",
        profile=found,
        versions=store.profiles.versions(actor, profile_id),
        answers=store.recommendations.page(actor, profile_id=profile_id),
        workloads=WORKLOADS,
        catalog_version=catalog.version,
    )


@router.get("/profiles/{profile_id}/edit")
def edit(profile_id: str, catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """The questionnaire with a saved profile's answers."""
    found = store.profiles.get(actor, profile_id)
    known = parse_profile(found.document)
    filled = Filled(workload=known.workload, values=values_of(known))
    return _form_page(catalog, filled, profile_id=profile_id, version=str(found.version))


@router.post("/profiles/{profile_id}/recommendations")
def run_again(request: Request, profile_id: str, catalog: CatalogUsed, actor: ActingUser, store: Writing) -> Response:
    """Ask again with today's catalogue and engine; the earlier answers stay."""
    found = store.profiles.get(actor, profile_id)
    answer = _recommend(request, parse_profile(found.document), catalog)
    store.recommendations.add(actor, profile_id=found.id, version=found.version, recommendation=answer)
    return RedirectResponse(f"/recommendations/{answer.id}", status_code=303)


@router.post("/profiles/{profile_id}/archive")
def archive(profile_id: str, actor: ActingUser, store: Writing) -> Response:
    """Put a profile away."""
    store.profiles.archive(actor, profile_id)
    return RedirectResponse("/profiles", status_code=303)


@router.get("/recommendations/{recommendation_id}")
def stored(recommendation_id: str, catalog: CatalogUsed, actor: ActingUser, store: Reading) -> HTMLResponse:
    """A stored answer, as it was given; nothing is computed."""
    answer = Recommendation.model_validate(store.recommendations.document(actor, recommendation_id))
    line = store.recommendations.line(actor, recommendation_id)
    kept = store.profiles.get(actor, line.profile_id)
    given = parse_profile(answer.profile)
    typed = {path: value for path, value in values_of(given).items() if path != "name"}
    return _answer_page(
        catalog,
        answer,
        stored=line,
        form_values={**typed, "workload": given.workload, "form": "1"},
        profile_id=line.profile_id,
        version=str(kept.version),
        customer=kept.customer or "",
    )


@router.get("/catalog/{kind}")
def catalog_page(kind: str, catalog: CatalogUsed) -> HTMLResponse:
    """One table of the catalogue with sources and dates."""
    if kind not in KINDS:
        raise NotFoundError(f"no table {kind}")
    columns, rows = table_of(kind, catalog)
    return page("catalog.html", kind=kind, kinds=KINDS, columns=columns, rows=rows, catalog_version=catalog.version)


def problem_page(catalog: Catalog, status: int, detail: str) -> HTMLResponse:
    """An error as a page: what happened and what to try."""
    title = {404: "Not found", 409: "Somebody else was first", 413: "Too large"}.get(status, "That did not work")
    return page("error.html", status, title=title, message=detail, catalog_version=catalog.version)
