"""The API's documentation for people: one plain page made from the OpenAPI document, without scripts."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ document.info.title }}: API</title>
<link rel="stylesheet" href="/static/app.css">
</head>
<body>
<main>
<h1>{{ document.info.title }}: API</h1>
<p>{{ document.info.description }}</p>
<p>Machine-readable: <a href="/openapi.json">openapi.json</a> (version {{ document.info.version }}).</p>
<nav aria-label="Operations"><ul>
{% for operation in operations %}<li><a href="#{{ operation.operationId }}"><code>{{ operation.method }} {{ operation.path }}</code></a></li>
{% endfor %}</ul></nav>
{% for operation in operations %}<section id="{{ operation.operationId }}" aria-labelledby="{{ operation.operationId }}-title">
<h2 id="{{ operation.operationId }}-title">{{ operation.summary }}</h2>
<p><code>{{ operation.method }} {{ operation.path }}</code></p>
<p>{{ operation.description }}</p>
{% if operation.parameters %}<table><caption>Parameters</caption>
<thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Meaning</th></tr></thead>
<tbody>{% for parameter in operation.parameters %}<tr><td><code>{{ parameter.name }}</code></td><td>{{ parameter["in"] }}</td>
<td>{{ parameter.description or "" }}</td></tr>{% endfor %}</tbody></table>
{% endif %}{% if operation.example %}<p>Body, for example:</p>
<pre><code>{{ operation.example }}</code></pre>
{% endif %}<table><caption>Answers</caption>
<thead><tr><th scope="col">Status</th><th scope="col">Meaning</th></tr></thead>
<tbody>{% for status, answer in operation.responses.items() %}<tr><td>{{ status }}</td><td>{{ answer.description }}</td></tr>{% endfor %}</tbody></table>
</section>
{% endfor %}
{% for name, schema in schemas.items() %}<section id="schema-{{ name }}" aria-labelledby="schema-{{ name }}-title">
<h2 id="schema-{{ name }}-title">{{ name }}</h2>
<p>{{ schema.description or "" }}</p>
{% if schema.properties %}<table><thead><tr><th scope="col">Field</th><th scope="col">Required</th><th scope="col">Meaning</th></tr></thead>
<tbody>{% for field, details in schema.properties.items() %}<tr><td><code>{{ field }}</code></td>
<td>{{ "yes" if field in schema.required or [] else "no" }}</td><td>{{ details.description or "" }}</td></tr>{% endfor %}</tbody></table>
{% endif %}</section>
{% endfor %}</main>
</body>
</html>
"""

_TEMPLATE = Environment(autoescape=True).from_string(PAGE)


def reference_page(document: dict[str, Any]) -> str:
    """The page for an OpenAPI document."""
    operations = [
        operation | {"method": method.upper(), "path": path, "example": _example(operation)}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return _TEMPLATE.render(document=document, operations=operations, schemas=document["components"]["schemas"])


def _example(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return json.dumps(content["example"], indent=2) if "example" in content else ""
