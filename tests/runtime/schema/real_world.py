"""Two hundred schemas in the shapes of tools that people use, by kind.

They are written for these tests after what public tool servers, SDKs and code generators produce:
plain hand-written ones, OpenAI's strict style, and what pydantic and zod emit.
"""

# ruff: noqa: E501 - tables, a tool a line

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

S: Schema = {"type": "string"}
I: Schema = {"type": "integer"}
N: Schema = {"type": "number"}
B: Schema = {"type": "boolean"}


def s(**rules: Any) -> Schema:
    return {"type": "string", **rules}


def i(low: int | None = None, high: int | None = None, **rules: Any) -> Schema:
    made: Schema = {"type": "integer", **rules}
    if low is not None:
        made["minimum"] = low
    if high is not None:
        made["maximum"] = high
    return made


def e(*values: Any, **rules: Any) -> Schema:
    return {"type": "string", "enum": list(values), **rules}


def a(items: Any, **rules: Any) -> Schema:
    return {"type": "array", "items": items, **rules}


def o(required: str = "", **properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def closed(required: str = "", **properties: Any) -> Schema:
    return {**o(required, **properties), "additionalProperties": False}


def strict(**properties: Any) -> Schema:
    """OpenAI's strict style: all is required, nothing else may be there, null stands for none."""
    return closed(" ".join(properties), **properties)


def null(schema: Schema) -> Schema:
    """Pydantic's Optional."""
    return {"anyOf": [schema, {"type": "null"}]}


def may(kind: str, **rules: Any) -> Schema:
    """OpenAI's optional: a list of types."""
    return {"type": [kind, "null"], **rules}


def zod(required: str = "", **properties: Any) -> Schema:
    """As zod-to-json-schema writes an object."""
    return {**closed(required, **properties), "$schema": "http://json-schema.org/draft-07/schema#"}


def model(title: str, required: str = "", defs: Schema | None = None, **properties: Any) -> Schema:
    """As pydantic's model_json_schema writes a model."""
    made = o(
        required, **{name: {"title": name.title(), **rules} for name, rules in properties.items()}
    )
    return {**made, "title": title, **({"$defs": defs} if defs else {})}


def ref(name: str, where: str = "$defs") -> Schema:
    return {"$ref": f"#/{where}/{name}"}


OWNER = {"owner": s(description="Account owner"), "repo": s(description="Repository name")}
PAGE = {"page": i(1, description="Page number"), "perPage": i(1, 100, description="Results a page")}
UUID = s(format="uuid")
WHEN = s(format="date-time")
DAY = s(format="date")
URL = s(format="uri")
MAIL = s(format="email")
CURRENCY = s(pattern="^[A-Z]{3}$")

GITHUB: dict[str, Schema] = {
    "get_file_contents": o("owner repo path", **OWNER, path=S, ref=S),
    "list_issues": o("owner repo", **OWNER, **PAGE, state=e("open", "closed", "all"), labels=a(S), since=WHEN),
    "create_issue": o("owner repo title", **OWNER, title=S, body=S, assignees=a(S), labels=a(S), milestone=N),
    "create_pull_request": o("owner repo title head base", **OWNER, title=S, head=S, base=S, draft=B, maintainer_can_modify=B),
    "push_files": o("owner repo branch files message", **OWNER, branch=S, message=S, files=a(o("path content", path=S, content=S))),
    "search_code": o("query", query=S, sort=e("indexed"), order=e("asc", "desc"), **PAGE),
    "get_commit": o("owner repo sha", **OWNER, sha=s(pattern="^[0-9a-f]{7,40}$"), **PAGE),
    "create_or_update_file": o("owner repo path content message branch", **OWNER, path=S, content=S, message=S, branch=S, sha=S),
    "merge_pull_request": o("owner repo pullNumber", **OWNER, pullNumber=i(1), merge_method=e("merge", "squash", "rebase")),
    "pull_request_review_write": o("method owner repo pullNumber", **OWNER, method=e("create", "submit_pending", "delete_pending"), pullNumber=N, event=e("APPROVE", "REQUEST_CHANGES", "COMMENT"), commitID=S),
    "add_comment_to_pending_review": o("owner repo path body subjectType", **OWNER, path=S, body=S, subjectType=e("FILE", "LINE"), line=N, side=e("LEFT", "RIGHT"), startLine=N),
    "list_workflow_runs": o("owner repo workflow_id", **OWNER, workflow_id=S, status=e("queued", "in_progress", "completed"), event=S, **PAGE),
    "run_workflow": o("owner repo workflow_id ref", **OWNER, workflow_id=S, ref=S, inputs={"type": "object", "properties": {}}),
    "create_repository": o("name", name=s(pattern=r"^[\w.-]+$", maxLength=100), description=S, private=B, autoInit=B),
    "fork_repository": o("owner repo", **OWNER, organization=S),
    "update_issue": o("owner repo issue_number", **OWNER, issue_number=i(1), state=e("open", "closed"), labels=a(S, uniqueItems=True)),
    "list_notifications": o("", filter=e("default", "include_read_notifications", "only_participating"), since=WHEN, before=WHEN, **PAGE),
    "dismiss_notification": o("threadID state", threadID=S, state=e("read", "done")),
    "get_me": {"type": "object", "properties": {}},
    "create_gist": o("files", files={"type": "object", "minProperties": 1, "additionalProperties": o("content", content=S)}, public=B),
    "create_branch": o("owner repo branch", **OWNER, branch=s(minLength=1, pattern=r"^(?!/)(?!.*//)[^\s~^:?*\[\\]+$"), from_branch=S),
    "search_users": o("query", query=s(minLength=1, maxLength=256), sort=e("followers", "repositories", "joined"), **PAGE),
}  # fmt: skip

CHAT: dict[str, Schema] = {
    "slack_post_message": o("channel_id text", channel_id=s(pattern="^[CGD][A-Z0-9]{8,}$"), text=s(maxLength=4000)),
    "slack_reply_to_thread": o("channel_id thread_ts text", channel_id=S, thread_ts=s(pattern=r"^\d{10}\.\d{6}$"), text=S),
    "slack_add_reaction": o("channel_id timestamp reaction", channel_id=S, timestamp=S, reaction=s(pattern="^[a-z0-9_+-]+$")),
    "slack_get_channel_history": o("channel_id", channel_id=S, limit=i(1, 1000, default=10)),
    "slack_list_channels": o("", limit={"type": "number", "default": 100, "maximum": 200}, cursor=S),
    "slack_open_modal": o("trigger_id view", trigger_id=S, view=o("type title blocks", type={"const": "modal"}, title=o("type text", type={"const": "plain_text"}, text=s(maxLength=24)), blocks=a({"oneOf": [o("type text", type={"const": "section"}, text=o("type text", type=e("mrkdwn", "plain_text"), text=S)), o("type", type={"const": "divider"})]}, minItems=1, maxItems=100))),
    "discord_send": o("channel content", channel=s(pattern=r"^\d{17,20}$"), content=s(maxLength=2000), embeds=a(o("", title=S, url=URL, color=i(0, 16777215)), maxItems=10)),
    "telegram_send_message": o("chat_id text", chat_id={"type": ["integer", "string"]}, text=s(minLength=1, maxLength=4096), parse_mode=e("HTML", "MarkdownV2")),
    "teams_card": o("to body", to=a(MAIL, minItems=1), body={"type": "object", "additionalProperties": True}),
    "send_email": strict(to=a(MAIL), cc=may("array", items=MAIL), subject=S, body=S, is_html=B),
    "gmail_search": zod("query", query=s(description="Gmail query"), maxResults={"type": "number", "minimum": 1, "maximum": 500, "default": 10}, pageToken=S, includeSpamTrash={"type": "boolean", "default": False}),
    "gmail_modify": zod("messageId", messageId=S, addLabelIds=a(S), removeLabelIds=a(S)),
    "gmail_draft": zod("to subject body", to=a(MAIL, description="Recipients"), subject=S, body=S, mimeType=e("text/plain", "text/html", "multipart/alternative", default="text/plain"), attachments=a(S)),
    "twilio_sms": o("to from body", to=s(pattern=r"^\+[1-9]\d{1,14}$"), body=s(maxLength=1600), **{"from": s(pattern=r"^\+[1-9]\d{1,14}$")}),
    "zulip_message": model("Message", "type to content", type=e("stream", "direct"), to={"anyOf": [S, a(I)]}, topic=null(S), content=S),
}  # fmt: skip

FILES: dict[str, Schema] = {
    "read_file": zod("path", path=S, tail={"type": "number", "description": "Last lines"}, head=N),
    "read_multiple_files": zod("paths", paths=a(S, minItems=1)),
    "write_file": zod("path content", path=S, content=S),
    "edit_file": zod("path edits", path=S, edits=a(closed("oldText newText", oldText=S, newText=S)), dryRun={"type": "boolean", "default": False}),
    "create_directory": zod("path", path=S),
    "directory_tree": zod("path", path=S, excludePatterns=a(S, default=[])),
    "search_files": zod("path pattern", path=S, pattern=S, excludePatterns=a(S, default=[])),
    "move_file": zod("source destination", source=S, destination=S),
    "list_allowed_directories": {"type": "object", "properties": {}, "required": []},
    "Read": closed("file_path", file_path=s(description="Absolute path"), offset=i(0, exclusiveMaximum=9007199254740991), limit=i(exclusiveMinimum=0, maximum=9007199254740991), pages=S),
    "Write": closed("file_path content", file_path=S, content=S),
    "Edit": closed("file_path old_string new_string", file_path=S, old_string=S, new_string=S, replace_all={"type": "boolean", "default": False}),
    "Glob": closed("pattern", pattern=S, path=S),
    "Grep": {**closed("pattern", pattern=S, path=S, glob=S, output_mode=e("content", "files_with_matches", "count"), multiline=B, head_limit=N, **{"-B": N, "-A": N, "-C": N, "-n": B, "-i": B}), "$schema": "https://json-schema.org/draft/2020-12/schema"},
    "Bash": closed("command", command=S, timeout=N, description=S, run_in_background=B, dangerouslyDisableSandbox=B),
    "NotebookEdit": closed("notebook_path new_source", notebook_path=S, cell_id=S, new_source=S, cell_type=e("code", "markdown"), edit_mode=e("replace", "insert", "delete")),
    "TodoWrite": closed("todos", todos=a(closed("content status activeForm", content=s(minLength=1), status=e("pending", "in_progress", "completed"), activeForm=s(minLength=1)))),
    "WebFetch": closed("url prompt", url=URL, prompt=S),
    "AskUserQuestion": closed("questions", questions=a(closed("question header options multiSelect", question=S, header=S, multiSelect={"type": "boolean", "default": False}, options=a(closed("label description", label=S, description=S), minItems=2, maxItems=4)), minItems=1, maxItems=4), answers={"type": "object", "propertyNames": S, "additionalProperties": S}),
    "exec_command": closed("cmd", cmd=S, workdir=S, shell=S, login=B, yield_time_ms=N, max_output_tokens=N, tty=B, justification=S, prefix_rule=a(S)),
    "write_stdin": closed("session_id", session_id=N, chars=S, yield_time_ms=N, max_output_tokens=N),
    "update_plan": closed("plan", explanation=S, plan=a(closed("step status", step=S, status=e("pending", "in_progress", "completed")))),
    "view_image": closed("path", path=S, detail=e("original")),
    "shell_list": closed("command", command=a(S), workdir=S, timeout_ms=N, with_escalated_permissions=B),
    "apply_diff": o("path diff", path=S, diff=s(minLength=1), dry_run=B),
    "str_replace_based_edit_tool": o("command path", command=e("view", "create", "str_replace", "insert", "undo_edit"), path=S, file_text=S, insert_line=I, view_range=a(I, minItems=2, maxItems=2)),
}  # fmt: skip

BROWSER: dict[str, Schema] = {
    "browser_navigate": zod("url", url=S),
    "browser_click": zod("element ref", element=S, ref=S, doubleClick=B, button=e("left", "right", "middle"), modifiers=a(e("Alt", "Control", "ControlOrMeta", "Meta", "Shift"))),
    "browser_type": zod("element ref text", element=S, ref=S, text=S, submit=B, slowly=B),
    "browser_select_option": zod("element ref values", element=S, ref=S, values=a(S)),
    "browser_take_screenshot": zod("type", type=e("png", "jpeg", default="png"), filename=S, fullPage=B),
    "browser_wait_for": zod("", time=N, text=S, textGone=S),
    "browser_fill_form": zod("fields", fields=a(closed("name type ref value", name=S, type=e("textbox", "checkbox", "radio", "combobox", "slider"), ref=S, value=S))),
    "browser_resize": zod("width height", width={"type": "number"}, height={"type": "number"}),
    "browser_drag": zod("startElement startRef endElement endRef", startElement=S, startRef=S, endElement=S, endRef=S),
    "browser_tabs": zod("action", action=e("list", "new", "close", "select"), index=N),
    "browser_evaluate": zod("function", element=S, ref=S, function=S),
    "computer": {"type": "object", "required": ["action"], "properties": {"action": e("key", "type", "mouse_move", "left_click", "screenshot", "scroll", "wait"), "coordinate": {"type": "array", "prefixItems": [i(0, 4000), i(0, 4000)], "minItems": 2, "maxItems": 2}, "text": S, "scroll_direction": e("up", "down", "left", "right"), "scroll_amount": i(0), "duration": {"type": "number", "exclusiveMinimum": 0}}},
    "computer_batch": o("actions", actions=a({"oneOf": [o("type x y", type={"const": "click"}, x=I, y=I, button=e("left", "right", "wheel")), o("type text", type={"const": "type"}, text=S), o("type keys", type={"const": "keypress"}, keys=a(S)), o("type", type={"const": "screenshot"}), o("type path", type={"const": "drag"}, path=a(o("x y", x=I, y=I), minItems=2))]}, minItems=1)),
    "puppeteer_navigate": o("url", url=URL, launchOptions={"type": "object", "description": "Options"}, allowDangerous=B),
    "fetch_page": {"type": "object", "title": "Fetch", "description": "Parameters", "properties": {"url": {"description": "URL to fetch", "format": "uri", "minLength": 1, "title": "Url", "type": "string"}, "max_length": {"default": 5000, "exclusiveMaximum": 1000000, "exclusiveMinimum": 0, "title": "Max Length", "type": "integer"}, "start_index": {"default": 0, "minimum": 0, "title": "Start Index", "type": "integer"}, "raw": {"default": False, "title": "Raw", "type": "boolean"}}, "required": ["url"]},
    "brave_web_search": o("query", query=s(maxLength=400), count={"type": "number", "default": 10, "minimum": 1, "maximum": 20}, offset={"type": "number", "default": 0, "maximum": 9}),
    "tavily_search": zod("query", query=S, search_depth=e("basic", "advanced", default="basic"), topic=e("general", "news", "finance"), days={"type": "number", "default": 3}, time_range=e("day", "week", "month", "year"), include_domains=a(S, default=[]), country={"type": "string", "default": ""}),
    "firecrawl_scrape": zod("url", url=URL, formats=a({"anyOf": [e("markdown", "html", "rawHtml", "screenshot", "links"), closed("type", type={"type": "string", "const": "json"}, prompt=S, schema={"type": "object", "additionalProperties": True})]}), onlyMainContent=B, waitFor=N, mobile=B, location=closed("", country=s(minLength=2, maxLength=2), languages=a(S))),
}  # fmt: skip

CALENDAR: dict[str, Schema] = {
    "list_events": zod("calendarId", calendarId={"anyOf": [S, a(S, minItems=1, maxItems=50)]}, timeMin=s(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"), timeMax=S, timeZone=S),
    "create_event": o("calendarId summary start end", calendarId={"type": "string", "default": "primary"}, summary=S, start=WHEN, end=WHEN, attendees=a(o("email", email=MAIL, optional=B)), colorId=s(pattern="^([1-9]|1[01])$"), recurrence=a(s(pattern="^(RRULE|EXDATE|RDATE):"))),
    "free_busy": strict(calendars=a(closed("id", id=S)), timeMin=S, timeMax=S, timeZone=may("string")),
    "update_event": model("UpdateEvent", "event_id", {"Reminder": model("Reminder", "minutes", method=e("email", "popup"), minutes=i(0, 40320))}, event_id=S, summary=null(S), reminders=null(a(ref("Reminder"), maxItems=5)), all_day={"type": "boolean", "default": False}),
    "schedule": strict(day=e("mon", "tue", "wed", "thu", "fri"), at=s(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$"), minutes=i(5, 480, multipleOf=5)),
    "set_reminder": o("text when", text=S, when={"oneOf": [WHEN, o("in_minutes", in_minutes=i(1))]}),
    "find_slot": model("Slot", "duration attendees", duration=s(format="duration"), attendees=a(MAIL, minItems=1), between={"type": "array", "prefixItems": [s(format="time"), s(format="time")], "minItems": 2, "maxItems": 2}),
    "todoist_add": o("content", content=S, due_string=S, priority={"type": "integer", "enum": [1, 2, 3, 4]}, labels=a(S)),
    "notion_page": o("parent properties", parent={"oneOf": [o("database_id", database_id=UUID), o("page_id", page_id=UUID)]}, properties={"type": "object", "additionalProperties": {"anyOf": [o("title", title=a(o("text", text=o("content", content=S)))), o("checkbox", checkbox=B), o("number", number=may("number"))]}}),
    "linear_issue": closed("title team", title=S, team=S, priority={"type": "number", "enum": [0, 1, 2, 3, 4]}, dueDate=DAY, estimate={"type": "number", "minimum": 0}, labels=a(S)),
    "jira_search": model("Search", "jql", jql=S, fields={"default": "summary,status", "type": "string"}, limit={"default": 10, "minimum": 1, "maximum": 50, "type": "integer"}, start_at={"default": 0, "minimum": 0, "type": "integer"}, projects_filter=null(S)),
    "asana_task": o("name", name=S, due_on=DAY, completed={"type": "boolean", "default": False}, custom_fields={"type": "object", "patternProperties": {r"^\d+$": {"type": ["string", "number", "null"]}}, "additionalProperties": False}),
}  # fmt: skip

DATA: dict[str, Schema] = {
    "query": o("sql", sql=S),
    "execute_sql": zod("project_id query", project_id=S, query=S),
    "list_tables": zod("project_id", project_id=S, schemas=a(S, default=["public"])),
    "postgres_explain": model("Explain", "sql", sql=S, analyze={"type": "boolean", "default": False}, hypothetical_indexes={"type": "array", "items": {"additionalProperties": True, "type": "object"}, "default": []}),
    "mongo_find": zod("database collection", database=S, collection=S, filter={"type": "object", "additionalProperties": {}, "description": "Filter"}, projection={"type": "object", "additionalProperties": {}}, limit={"type": "number", "default": 10}, sort={"type": "object", "additionalProperties": {"anyOf": [{"type": "number", "enum": [1, -1]}, {"type": "object", "additionalProperties": {}}]}}),
    "mongo_aggregate": zod("database collection pipeline", database=S, collection=S, pipeline=a({"type": "object", "additionalProperties": {}})),
    "redis_set": o("key value", key=s(minLength=1), value={"type": ["string", "number", "boolean"]}, expireSeconds=i(1)),
    "bigquery_query": strict(query=S, maximumBytesBilled=may("string"), params=a(strict(name=S, type=e("STRING", "INT64", "FLOAT64", "BOOL"), value=S))),
    "elasticsearch_search": zod("index queryBody", index=s(minLength=1), queryBody={"type": "object", "additionalProperties": {}}),
    "vector_upsert": o("vectors", namespace=S, vectors=a(o("id values", id=S, values=a(N, minItems=4, maxItems=4), metadata={"type": "object"}), minItems=1, maxItems=100)),
    "filter_rows": {"type": "object", "properties": {"where": ref("condition", "definitions"), "limit": i(1, 1000)}, "required": ["where"], "definitions": {"condition": {"anyOf": [o("field op value", field=S, op=e("eq", "ne", "lt", "gt", "in"), value={"anyOf": [S, N, B, a(S)]}), closed("and", **{"and": a(ref("condition", "definitions"), minItems=1)}), closed("not", **{"not": ref("condition", "definitions")})]}}},
    "create_chart": strict(kind=e("bar", "line", "pie"), series=a(strict(name=S, points=a(strict(x=N, y=N)))), title=may("string")),
    "dataframe_pivot": model("Pivot", "index values", {"Agg": {"enum": ["sum", "mean", "count"], "title": "Agg", "type": "string"}}, index=a(S), columns=null(a(S)), values=S, aggfunc={"allOf": [ref("Agg")], "default": "sum"}),
    "sheet_update": o("spreadsheetId range values", spreadsheetId=s(pattern="^[a-zA-Z0-9-_]{20,}$"), range=s(pattern=r"^[A-Z]+\d+(:[A-Z]+\d+)?$"), values=a(a({"type": ["string", "number", "boolean", "null"]}))),
    "graphql": o("query", query=S, variables={"type": ["object", "string", "null"]}, operationName=may("string")),
    "csv_to_json": o("data", data=S, delimiter=s(minLength=1, maxLength=1, default=","), header={"type": "boolean", "default": True}),
    "run_python": zod("code", code=S, packages=a(s(pattern=r"^[A-Za-z0-9_.-]+(==[\w.]+)?$"), maxItems=20), timeout={"type": "integer", "exclusiveMinimum": 0, "maximum": 600, "default": 60}),
    "train_test_split": model("Split", "rows", rows=i(2), test_size={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.2}, seed=null(I), stratify={"type": "boolean", "default": False}),
}  # fmt: skip

MONEY: dict[str, Schema] = {
    "create_customer": zod("name", name=S, email=MAIL),
    "create_product": zod("name", name=S, description=S),
    "create_price": zod("product unit_amount currency", product=S, unit_amount={"type": "integer", "description": "Cents"}, currency=S),
    "create_payment_intent": o("amount currency", amount=i(50, 99999999), currency=s(pattern="^[a-z]{3}$"), capture_method=e("automatic", "manual"), metadata={"type": "object", "maxProperties": 50, "propertyNames": {"maxLength": 40}, "additionalProperties": s(maxLength=500)}),
    "create_refund": zod("payment_intent", payment_intent=s(pattern="^pi_[A-Za-z0-9]{14,}$"), amount={"type": "integer", "exclusiveMinimum": 0}, reason=e("duplicate", "fraudulent", "requested_by_customer")),
    "list_invoices": zod("", customer=S, limit=i(1, 100)),
    "create_coupon": {**closed("name", name=s(maxLength=40), percent_off={"type": "number", "exclusiveMinimum": 0, "maximum": 100}, amount_off=i(1), currency=CURRENCY, duration=e("once", "repeating", "forever")), "oneOf": [{"required": ["percent_off"]}, {"required": ["amount_off", "currency"]}]},
    "update_subscription": zod("subscription", subscription=S, proration_behavior=e("create_prorations", "none", "always_invoice"), items=a(closed("", id=S, price=S, quantity={"type": "integer", "minimum": 1}, deleted=B))),
    "transfer": strict(source=s(pattern=r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$"), destination=s(pattern=r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$"), amount=s(pattern=r"^\d+\.\d{2}$"), currency=CURRENCY),
    "convert_currency": o("amount from to", amount={"type": "number", "minimum": 0.01, "multipleOf": 0.01}, to=CURRENCY, **{"from": CURRENCY}),
    "quote": o("symbols", symbols=a(s(pattern=r"^[A-Z.]{1,6}$"), minItems=1, maxItems=10, uniqueItems=True)),
    "place_order": {"type": "object", "properties": {"symbol": S, "side": e("buy", "sell"), "type": e("market", "limit"), "qty": {"type": "number", "exclusiveMinimum": 0}, "limit_price": {"type": "number", "exclusiveMinimum": 0}}, "required": ["symbol", "side", "type", "qty"], "if": {"properties": {"type": {"const": "limit"}}}, "then": {"required": ["limit_price"]}},
    "card": o("number exp_month exp_year", number=s(pattern=r"^\d{13,19}$"), exp_month=i(1, 12), exp_year=i(2026, 2050), cvc=s(pattern=r"^\d{3,4}$")),
    "tax_rate": strict(country=s(pattern="^[A-Z]{2}$"), percentage=N, inclusive=B),
    "shopify_order": o("line_items", line_items=a({"anyOf": [o("variant_id quantity", variant_id=I, quantity=i(1)), o("title price quantity", title=S, price=s(pattern=r"^\d+(\.\d{1,2})?$"), quantity=i(1))]}, minItems=1), email=MAIL, shipping_address=o("address1 city country zip", address1=S, city=S, country=S, zip=S)),
}  # fmt: skip

PLACES: dict[str, Schema] = {
    "get_current_weather": o("location", location=s(description="The city and state, e.g. San Francisco, CA"), unit=e("celsius", "fahrenheit")),
    "get_weather_strict": strict(location=S, units=e("celsius", "fahrenheit")),
    "get_forecast": o("latitude longitude", latitude={"type": "number", "minimum": -90, "maximum": 90}, longitude={"type": "number", "minimum": -180, "maximum": 180}, days=i(1, 16)),
    "get_alerts": model("get_alertsArguments", "state", state=s(minLength=2, maxLength=2)),
    "maps_geocode": o("address", address=S),
    "maps_directions": o("origin destination", origin=S, destination=S, mode=e("driving", "walking", "bicycling", "transit")),
    "maps_distance_matrix": o("origins destinations", origins=a(S), destinations=a(S), mode=e("driving", "walking")),
    "maps_search_places": o("query", query=S, location=o("latitude longitude", latitude=N, longitude=N), radius={"type": "number", "maximum": 50000}),
    "maps_elevation": o("locations", locations=a(o("latitude longitude", latitude=N, longitude=N))),
    "geojson": {"type": "object", "required": ["type", "coordinates"], "oneOf": [{"properties": {"type": {"const": "Point"}, "coordinates": {"type": "array", "items": N, "minItems": 2, "maxItems": 3}}}, {"properties": {"type": {"const": "LineString"}, "coordinates": a(a(N, minItems=2, maxItems=3), minItems=2)}}]},
    "book_flight": strict(origin=s(pattern="^[A-Z]{3}$"), destination=s(pattern="^[A-Z]{3}$"), departure=DAY, return_date=null(DAY), passengers=a(strict(name=S, age=i(0, 120), seat=may("string", enum=["aisle", "window", None])))),
    "search_hotels": o("city check_in check_out", city=S, check_in=DAY, check_out=DAY, guests=i(1, 10, default=2), amenities=a(e("wifi", "pool", "gym", "parking"), uniqueItems=True), price={"type": "object", "properties": {"min": N, "max": N}, "additionalProperties": False}),
    "order_pizza": strict(size=e("S", "M", "L"), toppings=a(e("ham", "olives", "basil", "onion")), address=ref("Address"), extra=may("string")) | {"$defs": {"Address": strict(street=S, zip=s(pattern=r"^\d{5}(-\d{4})?$"))}},
    "set_thermostat": o("zone", zone=e("living_room", "bedroom"), target={"type": "number", "minimum": 5, "maximum": 30, "multipleOf": 0.5}),
    "light": o("", on=B, brightness=i(0, 100), color=s(pattern="^#([0-9a-fA-F]{3}){1,2}$"), transition={"type": "number", "minimum": 0}),
}  # fmt: skip

CLOUD: dict[str, Schema] = {
    "kubectl_get": o("resourceType", resourceType=S, name=S, namespace={"type": "string", "default": "default"}, output=e("json", "yaml", "wide", default="json"), allNamespaces=B, labelSelector=S),
    "kubectl_logs": o("resourceType name namespace", resourceType=e("pod", "deployment", "job", "cronjob"), name=S, namespace=S, tail=N, since=s(pattern=r"^\d+(s|m|h)$"), previous=B),
    "kubectl_scale": o("name replicas", name=s(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=63), replicas=i(0), namespace=S),
    "kubectl_patch": o("resourceType name", resourceType=S, name=S, patchType=e("strategic", "merge", "json"), patchData={"oneOf": [{"type": "object"}, a(o("op path", op=e("add", "remove", "replace"), path=s(pattern="^/"), value={}))]}),
    "install_helm_chart": o("name chart namespace", name=S, chart=S, namespace=S, repo=URL, values={"type": "object", "properties": {}, "additionalProperties": True}),
    "port_forward": o("resourceName localPort targetPort", resourceName=S, localPort=i(1, 65535), targetPort=i(1, 65535)),
    "apply_deployment": o("metadata spec", apiVersion={"const": "apps/v1"}, kind={"const": "Deployment"}, metadata=o("name", name=S, labels={"type": "object", "additionalProperties": s(maxLength=63, pattern="^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")}), spec=o("replicas template", replicas=i(0, 100), template=o("containers", containers=a(o("name image", name=S, image=s(pattern=r"^[\w.\-/]+(:[\w.\-]+)?$"), ports=a(o("containerPort", containerPort=i(1, 65535), protocol=e("TCP", "UDP"))), resources=o("", limits={"type": "object", "patternProperties": {"^(cpu|memory)$": s(pattern=r"^\d+(m|Mi|Gi)?$")}, "additionalProperties": False})), minItems=1)))),
    "aws_s3_put": o("bucket key", bucket=s(minLength=3, maxLength=63, pattern="^[a-z0-9][a-z0-9.-]*[a-z0-9]$"), key=S, tags={"type": "object", "maxProperties": 10, "additionalProperties": S}),
    "ec2_run": closed("imageId instanceType", imageId=s(pattern="^ami-[0-9a-f]{17}$"), instanceType=s(pattern=r"^[a-z]\d[a-z]?\.(nano|micro|small|medium|\d*x?large)$"), count=i(1, 10), dryRun=B),
    "terraform_plan": o("workdir", workdir=S, vars={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}, targets=a(S), destroy={"type": "boolean", "default": False}),
    "docker_run": o("image", image=S, cmd={"anyOf": [S, a(S)]}, env={"type": "object", "propertyNames": {"pattern": "^[A-Z_][A-Z0-9_]*$"}, "additionalProperties": S}, ports=a(s(pattern=r"^\d{1,5}:\d{1,5}$")), memory=s(pattern=r"^\d+[bkmg]$")),
    "cloudflare_dns": {"type": "object", "required": ["zone", "record"], "properties": {"zone": s(format="hostname"), "record": {"oneOf": [o("type content", type={"const": "A"}, content=s(format="ipv4")), o("type content", type={"const": "AAAA"}, content=s(format="ipv6")), o("type content priority", type={"const": "MX"}, content=s(format="hostname"), priority=i(0, 65535))]}}},
    "cron_job": o("schedule command", schedule=s(pattern=r"^(\S+\s){4}\S+$"), command=S, timezone=S),
    "sentry_search": closed("organizationSlug", organizationSlug=S, regionUrl=null(URL), query=S, limit={"default": 10, "type": "number", "minimum": 1, "maximum": 100}),
    "grafana_query": o("datasourceUid expr startTime", datasourceUid=S, expr=S, startTime=S, endTime=S, stepSeconds=I, queryType=e("range", "instant")),
    "prometheus_range": model("Range", "query start end step", query=S, start={"anyOf": [WHEN, N]}, end={"anyOf": [WHEN, N]}, step=s(pattern=r"^\d+[smhd]$")),
    "pagerduty_incident": o("title service", title=S, service=o("id type", id=S, type={"const": "service_reference"}), urgency=e("high", "low"), body=o("type details", type={"const": "incident_body"}, details=S)),
    "feature_flag": {**closed("key kind", key=s(pattern="^[a-z][a-z0-9._-]*$"), kind=e("boolean", "multivariate"), variations=a(o("value", value={})), rollout={"type": "number", "minimum": 0, "maximum": 100}), "dependentRequired": {"rollout": ["variations"]}},
}  # fmt: skip

MCP: dict[str, Schema] = {
    "memory_create_entities": zod("entities", entities=a(closed("name entityType observations", name=S, entityType=S, observations=a(S)))),
    "memory_create_relations": zod("relations", relations=a(closed("from to relationType", to=S, relationType=S, **{"from": S}))),
    "memory_open_nodes": zod("names", names=a(S)),
    "memory_read_graph": {"type": "object", "properties": {}, "$schema": "http://json-schema.org/draft-07/schema#"},
    "sequential_thinking": o("thought nextThoughtNeeded thoughtNumber totalThoughts", thought=S, nextThoughtNeeded=B, thoughtNumber=i(1), totalThoughts=i(1), isRevision=B, revisesThought=i(1), branchId=S),
    "get_current_time": o("timezone", timezone=S),
    "convert_time": o("source_timezone time target_timezone", source_timezone=S, time=s(pattern="^([01]?[0-9]|2[0-3]):[0-5][0-9]$"), target_timezone=S),
    "git_status": model("GitStatus", "repo_path", repo_path=S),
    "git_commit": model("GitCommit", "repo_path message", repo_path=S, message=S),
    "git_log": model("GitLog", "repo_path", repo_path=S, max_count={"default": 10, "type": "integer"}, start_timestamp=null(S)),
    "git_branch": model("GitBranch", "repo_path branch_type", repo_path=S, branch_type=S, contains={"anyOf": [S, {"type": "null"}], "default": None}),
    "echo": zod("message", message=S),
    "add": zod("a b", a=N, b=N),
    "long_running": zod("", duration={"type": "number", "default": 10}, steps={"type": "number", "default": 5}),
    "elicit": o("message requestedSchema", message=S, requestedSchema=o("type properties", type={"const": "object"}, properties={"type": "object", "additionalProperties": {"anyOf": [o("type", type={"const": "string"}), o("type", type=e("number", "integer"))]}})),
    "figma_get": zod("fileKey", fileKey=s(pattern="^[a-zA-Z0-9]+$"), nodeId=s(pattern=r"^I?\d+[:|-]\d+(;\d+[:|-]\d+)*$"), depth=N),
    "context7_resolve": zod("libraryName", libraryName=S),
    "context7_docs": zod("context7CompatibleLibraryID", context7CompatibleLibraryID=S, topic=S, tokens={"type": "number"}),
    "spotify_play": model("Playback", "action", action=s(description="get, start, pause or skip"), spotify_uri=null(s(pattern="^spotify:(track|album):[A-Za-z0-9]{22}$")), num_skips={"anyOf": [I, {"type": "null"}], "default": 1}),
    "unreal_actor": {"$schema": "http://json-schema.org/draft-07/schema#"} | o("name type", name=S, type=S, location=a(N, minItems=3, maxItems=3, default=[0, 0, 0]), rotation={"type": "array", "items": [N, N, N], "additionalItems": False, "minItems": 3}),
    "blender_code": model("execute_blender_codeArguments", "code", code=S),
    "obsidian_patch": o("filepath operation target_type target content", filepath=s(format="path"), operation=e("append", "prepend", "replace"), target_type=e("heading", "block", "frontmatter"), target=S, content=S),
    "obsidian_search": o("query", query={"type": "object", "description": "JsonLogic"}),
    "openapi_nullable": o("name", name=s(nullable=True), count={"type": "integer", "format": "int32", "nullable": True}, ratio={"type": "number", "format": "double"}),
    "any_value": o("key value", key=S, value={}),
    "true_schema": {"type": "object", "properties": {"payload": True}, "required": ["payload"]},
    "no_type": {"properties": {"query": {"type": "string"}}, "required": ["query"]},
    "empty": {},
    "draft4": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"rate": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1}}, "required": ["rate"]},
}  # fmt: skip

PEOPLE = {"Person": model("Person", "name", name=S, born=null(DAY), manager=null(ref("Person")))}
TREE = {"node": strict(value=N, children=a(ref("node")))}

OUTPUTS: dict[str, Schema] = {
    "math_reasoning": strict(steps=a(strict(explanation=S, output=S)), final_answer=S),
    "calendar_event": strict(name=S, date=S, participants=a(S)),
    "research_paper": strict(title=S, authors=a(S), abstract=S, keywords=a(S)),
    "moderation": strict(is_violating=B, category=may("string", enum=["violence", "sexual", "self_harm", None]), explanation_if_violating=may("string")),
    "linked_list": {**strict(linked_list=ref("node")), "$defs": {"node": strict(value=N, next={"anyOf": [ref("node"), {"type": "null"}]})}},
    "tree": {**strict(root=ref("node")), "$defs": TREE},
    "ui": strict(type=e("div", "button", "header"), label=S, children=a({"$ref": "#"}), attributes=a(strict(name=S, value=S))),
    "union_item": {**strict(item={"anyOf": [ref("user"), ref("address")]}), "$defs": {"user": strict(name=S, age=N), "address": strict(number=S, street=S, city=S)}},
    "person_model": model("Team", "lead", PEOPLE, lead=ref("Person"), members={"type": "array", "items": ref("Person"), "default": []}),
    "invoice": model("Invoice", "number lines total", {"Line": model("Line", "text quantity price", text=S, quantity=i(1), price={"type": "number", "minimum": 0})}, number=s(pattern=r"^INV-\d{6}$"), lines=a(ref("Line"), minItems=1), total={"anyOf": [N, s(pattern=r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$")]}),
    "pet": model("Owner", "pet", {"Cat": model("Cat", "kind lives", kind={"const": "cat", "type": "string"}, lives=i(0, 9)), "Dog": model("Dog", "kind breed", kind={"const": "dog", "type": "string"}, breed=S)}, pet={"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "oneOf": [ref("Cat"), ref("Dog")]}),
    "sentiment": strict(label=e("positive", "negative", "neutral"), score={"type": "number", "minimum": 0, "maximum": 1}),
    "entities": strict(entities=a(strict(text=S, kind=e("person", "place", "organisation"), start=i(0), end=i(0)), maxItems=20)),
    "recipe": zod("title ingredients", title=s(minLength=1), servings={"type": "integer", "exclusiveMinimum": 0}, ingredients=a(closed("name", name=S, amount=N, unit=e("g", "ml", "piece")), minItems=1)),
    "resume": strict(name=S, email=MAIL, links=a(URL), jobs=a(strict(employer=S, start=DAY, end=null(DAY)))),
    "translation": {"type": "object", "patternProperties": {"^[a-z]{2}(-[A-Z]{2})?$": S}, "additionalProperties": False, "minProperties": 1},
    "matrix": strict(rows=a(a(N, minItems=3, maxItems=3), minItems=3, maxItems=3)),
    "root_array": a(o("id", id=i(1)), minItems=2, maxItems=4),
    "root_string": e("yes", "no"),
    "all_of": {"allOf": [o("id", id=UUID), o("created", created=WHEN), {"properties": {"id": s(minLength=36)}}]},
    "extends": {"allOf": [ref("Base"), o("size", size=i(1))], "$defs": {"Base": o("kind", kind=e("file", "folder"))}, "unevaluatedProperties": False},
    "set_of_three": a(e("a", "b", "c"), minItems=3, uniqueItems=True),
    "not_empty": {"type": "object", "properties": {"note": {"type": "string", "not": {"enum": ["", "n/a"]}}}, "required": ["note"]},
    "one_flag": {"type": "array", "items": B, "contains": {"const": True}, "minContains": 1, "maxContains": 1, "minItems": 3},
    "password": o("password", password=s(pattern=r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,64}$")),
    "unicode_name": o("name", name=s(pattern=r"^\p{Lu}[\p{L} '-]+$")),
    "version": o("version", version=s(pattern=r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?$")),
    "examples": o("q level", q=s(examples=["lamps", "bridges"]), level=i(1, 5, default=3)),
    "dependent": {"type": "object", "properties": {"credit_card": S, "billing_address": S}, "required": ["credit_card"], "dependentSchemas": {"credit_card": {"required": ["billing_address"]}}},
    "dependencies_draft7": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": S, "b": S}, "required": ["a"], "dependencies": {"a": ["b"]}},
    "anchors": {"type": "object", "properties": {"to": {"$ref": "#place"}}, "required": ["to"], "$defs": {"p": {"$anchor": "place", "type": "string", "minLength": 3}}},
}  # fmt: skip

KINDS: dict[str, dict[str, Schema]] = {
    "github": GITHUB,
    "chat": CHAT,
    "files": FILES,
    "browser": BROWSER,
    "calendar": CALENDAR,
    "data": DATA,
    "money": MONEY,
    "places": PLACES,
    "cloud": CLOUD,
    "mcp": MCP,
    "outputs": OUTPUTS,
}

# Of no kind that occurs, and here on purpose: what must be refused, and clearly.
REFUSED: dict[str, Schema] = {
    "contradiction": o("n", n=i(5, 3)),
    "never": {"type": "object", "properties": {"x": False}, "required": ["x"]},
    "remote_ref": o("x", x={"$ref": "https://example.com/schemas/x.json"}),
    "endless": {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]},
}

ALL: dict[str, Schema] = {
    f"{kind}/{name}": schema for kind, table in KINDS.items() for name, schema in table.items()
}
