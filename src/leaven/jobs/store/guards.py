"""Permissions that PostgreSQL enforces between the users of a team, who are the roles of their connections.

A job belongs to the role that inserted it. Others may not change it, and neither may the one that leads: it may grant a
queued job, cancel it and say why it waits, and ask an attempt to make room, but what runs, as whom and with what is the
owner's alone. A member of the role that owns the tables is an administrator, and may do everything.
"""

from enum import StrEnum

from sqlalchemy import Connection, text

from leaven.jobs.states import Entry, Outcome, State, Wanted


def _words(words: type[StrEnum]) -> str:
    return ", ".join(f"'{word}'" for word in words)


_FUNCTIONS = """
CREATE OR REPLACE FUNCTION leaven_is_admin(which oid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_has_role(session_user, relowner, 'MEMBER') FROM pg_class WHERE oid = which
$$;

CREATE OR REPLACE FUNCTION leaven_refuse(told text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = told;
END $$;

CREATE OR REPLACE FUNCTION leaven_refuse_job(which integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM leaven_refuse(format('%s belongs to %s', name, owner)) FROM jobs WHERE id = which;
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    granted text[] := ARRAY['state', 'attempt', 'attempts', 'reason', 'waits', 'ended'];
    changed text[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.owner := session_user;
        RETURN NEW;
    ELSIF OLD.owner = session_user THEN
        IF TG_OP = 'UPDATE' AND NEW.owner <> OLD.owner THEN
            PERFORM leaven_refuse_job(OLD.id);
        END IF;
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    ELSIF TG_OP = 'UPDATE' THEN
        SELECT coalesce(array_agg(new_row.key), '{}') INTO changed
            FROM jsonb_each(to_jsonb(NEW)) new_row JOIN jsonb_each(to_jsonb(OLD)) old_row USING (key)
            WHERE new_row.value IS DISTINCT FROM old_row.value;
        IF OLD.state = 'queued' AND changed <@ granted AND NEW.state IN ('queued', 'starting', 'cancelled')
            OR changed <@ ARRAY['preempted'] THEN
            RETURN NEW;
        END IF;
    END IF;
    PERFORM leaven_refuse_job(OLD.id);
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    job jobs%ROWTYPE;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = CASE WHEN TG_OP = 'INSERT' THEN NEW.job ELSE OLD.job END;
    IF TG_OP <> 'INSERT' AND job.owner = session_user THEN
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    ELSIF TG_OP = 'INSERT' AND NEW.id = job.attempt AND NEW.native = '' AND NEW.outcome IS NULL
        AND NEW.id ~ '^[0-9a-f]+-[0-9]+-[0-9]+-[0-9a-f]+$' AND NEW.devices ~ '^[0-9,]*$' THEN
        RETURN NEW;
    END IF;
    PERFORM leaven_refuse_job(job.id);
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_dependencies() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found record := CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END;
BEGIN
    IF session_user IN (SELECT owner FROM jobs WHERE id = found.job)
        OR TG_OP = 'DELETE' AND session_user IN (SELECT owner FROM jobs WHERE id = found.after) THEN
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    PERFORM leaven_refuse_job(found.job);
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.actor := session_user;
        RETURN NEW;
    ELSIF TG_OP = 'DELETE' AND session_user IN (SELECT owner FROM jobs WHERE id = OLD.job) THEN
        RETURN OLD;
    END IF;
    PERFORM leaven_refuse_job(OLD.job);
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_agents() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found jsonb := to_jsonb(CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END);
    agent text := CASE WHEN TG_TABLE_NAME = 'agents' THEN found ->> 'id' ELSE found ->> 'agent' END;
BEGIN
    IF starts_with(agent, session_user || '@') THEN
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    PERFORM leaven_refuse(format('%s is the coordinator of another user', agent));
END $$;

CREATE OR REPLACE FUNCTION leaven_guard_facts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found facts%ROWTYPE := CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END;
BEGIN
    IF found.name IN ('version', 'store', 'quotas') THEN
        PERFORM leaven_refuse('only an administrator may change that');
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$
"""
_TIMES = "0 AND 1e11"
_SANE = {  # so that no user's rows keep others from reading the tables
    "jobs": f"""state IN ({_words(State)}) AND wanted IN ({_words(Wanted)}) AND entry IN ({_words(Entry)})
        AND json_typeof(settings::json) = 'object' AND json_typeof(variables::json) = 'object'
        AND json_typeof(arguments::json) = 'array' AND json_typeof(secrets::json) = 'array'
        AND (progress = '' OR json_typeof(progress::json) = 'object')
        AND cpus BETWEEN 1 AND 100000 AND gpus BETWEEN 0 AND 10000 AND memory >= 0 AND processes >= 0 AND nodes >= 1
        AND coalesce(minutes, 1) BETWEEN 0 AND 1e7 AND delay BETWEEN 0 AND 1e6 AND delayed BETWEEN {_TIMES}
        AND submitted BETWEEN {_TIMES}
        AND coalesce(started, 0) BETWEEN {_TIMES} AND coalesce(ended, 0) BETWEEN {_TIMES}""",
    "attempts": f"""coalesce(outcome, 'lost') IN ({_words(Outcome)})
        AND devices ~ '^([0-9]{{1,5}}(,[0-9]{{1,5}})*)?$' AND submitted BETWEEN {_TIMES}
        AND coalesce(started, 0) BETWEEN {_TIMES} AND coalesce(ended, 0) BETWEEN {_TIMES}""",
    "agents": f"json_typeof(capacity::json) = 'object' AND since BETWEEN {_TIMES} AND seen BETWEEN {_TIMES}",
    "environments": f"coalesce(unreachable_since, 0) BETWEEN {_TIMES}",
    "events": f"at BETWEEN {_TIMES}",
    "usage": f"core_seconds BETWEEN 0 AND 1e18 AND at BETWEEN {_TIMES}",
}
_GUARDED = ("jobs", "attempts", "dependencies", "events", "agents", "facts")
_GUARDS = {**{table: table for table in _GUARDED}, "environments": "agents"}
_ALL = "agents, attempts, dependencies, environments, events, facts, jobs, revisions, usage"


def guard(connection: Connection) -> None:
    """Let whoever can reach the tables use them, within these limits."""
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar()
    # so that no table of the same name that a user has made is taken for one of these
    functions = _FUNCTIONS.replace(" AS $$", f" SET search_path = {schema}, pg_temp AS $$")
    connection.execution_options(no_parameters=True).exec_driver_sql(functions)
    for table, condition in _SANE.items():
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT {table}_sane CHECK ({condition})")
    for table, name in _GUARDS.items():
        connection.execute(text(f"DROP TRIGGER IF EXISTS leaven_guard ON {table}"))
        connection.execute(
            text(
                f"CREATE TRIGGER leaven_guard BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
                f" WHEN (NOT leaven_is_admin('{table}'::regclass)) EXECUTE FUNCTION leaven_guard_{name}()"
            )
        )
    connection.execute(text(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {_ALL} TO PUBLIC"))
    connection.execute(text("GRANT USAGE ON SEQUENCE jobs_id_seq, events_id_seq TO PUBLIC"))
