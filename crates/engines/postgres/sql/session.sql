
-- Session mode: locks in the server's memory, each for as long as a connection (pg_advisory_lock). The rows here only say who has
-- them and count the fences; whether somebody has one, pg_locks alone knows.

-- What the server calls each lock, and its last fence. Rows stay. The space is 1 for one bigint and 2 for two integers, the first
-- of them in the upper half of the key: as pg_locks has them.
CREATE TABLE IF NOT EXISTS bramah_keys (
  space smallint NOT NULL,
  key   bigint NOT NULL,
  name  text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  PRIMARY KEY (space, key)
) WITH (fillfactor = 70);

-- Who has a lock, or waits for one. A row without an entry in pg_locks is what is left of one that has ended. It is not kept over
-- a crash of the server, and neither are these locks.
CREATE UNLOGGED TABLE IF NOT EXISTS bramah_places (
  place    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  space    smallint NOT NULL,
  key      bigint NOT NULL,
  name     text COLLATE "C" NOT NULL,
  session  uuid NOT NULL,
  seq      bigint NOT NULL,
  -- The connection: its number, and when it began, in microseconds.
  pid      integer NOT NULL,
  since    bigint NOT NULL,
  capacity bigint NOT NULL,
  weight   bigint NOT NULL,
  ttl      bigint NOT NULL,
  lease    bigint,
  note     text NOT NULL,
  fence    bigint,
  entered  timestamptz NOT NULL,
  granted  timestamptz,
  -- Somebody wants it to be given up.
  broken   boolean NOT NULL DEFAULT false,
  UNIQUE (session, seq)
);

CREATE INDEX IF NOT EXISTS bramah_places_key ON bramah_places (space, key);

-- The advisory locks of this database, with their keys in one piece.
CREATE OR REPLACE VIEW bramah_advisory AS
  SELECT l.pid, l.objsubid AS space, (l.classid::bigint << 32) | l.objid::bigint AS key, l.mode = 'ShareLock' AS shared,
         l.granted, l.waitstart
    FROM pg_locks l
   WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- When this connection began, as it has found out at its beginning.
CREATE OR REPLACE FUNCTION bramah_since() RETURNS bigint LANGUAGE sql AS $$
  SELECT current_setting('bramah.since')::bigint
$$;

CREATE OR REPLACE FUNCTION bramah_unlock(p_space smallint, p_key bigint, p_shared boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_one integer := (p_key >> 32)::integer;
  v_two integer := ((p_key << 32) >> 32)::integer;
BEGIN
  IF p_space = 1 THEN
    RETURN CASE WHEN p_shared THEN pg_advisory_unlock_shared(p_key) ELSE pg_advisory_unlock(p_key) END;
  END IF;
  RETURN CASE WHEN p_shared THEN pg_advisory_unlock_shared(v_one, v_two) ELSE pg_advisory_unlock(v_one, v_two) END;
END $$;

-- Writes down that this connection has a lock, and counts its fence. A lock whose key belongs to another name is let go.
CREATE OR REPLACE FUNCTION bramah_took(p_space smallint, p_key bigint, p_name text, p_session uuid, p_seq bigint,
  p_capacity bigint, p_weight bigint, p_ttl bigint, p_lease bigint, p_note text)
RETURNS TABLE (state text, fence bigint, word text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_name  text;
  v_fence bigint;
BEGIN
  INSERT INTO bramah_keys AS k (space, key, name, fence) VALUES (p_space, p_key, p_name, 1)
    ON CONFLICT (space, key) DO UPDATE SET fence = k.fence + 1 WHERE k.name = excluded.name AND p_weight = p_capacity
    RETURNING k.name, k.fence INTO v_name, v_fence;
  IF NOT FOUND THEN
    SELECT k.name, k.fence INTO v_name, v_fence FROM bramah_keys k WHERE k.space = p_space AND k.key = p_key;
    IF v_name <> p_name THEN
      PERFORM bramah_unlock(p_space, p_key, p_weight < p_capacity);
      DELETE FROM bramah_places WHERE session = p_session AND seq = p_seq;
      RETURN QUERY SELECT 'n', NULL::bigint, v_name;
      RETURN;
    END IF;
  END IF;
  UPDATE bramah_places SET granted = clock_timestamp(), fence = v_fence WHERE session = p_session AND seq = p_seq;
  IF NOT FOUND THEN
    INSERT INTO bramah_places (space, key, name, session, seq, pid, since, capacity, weight, ttl, lease, note, fence, entered, granted)
      VALUES (p_space, p_key, p_name, p_session, p_seq, pg_backend_pid(), bramah_since(),
              p_capacity, p_weight, p_ttl, p_lease, p_note, v_fence, clock_timestamp(), clock_timestamp());
  END IF;
  RETURN QUERY SELECT 'h', v_fence, NULL::text;
END $$;

-- Takes a lock if it is free.
CREATE OR REPLACE FUNCTION bramah_take(p_space smallint, p_key bigint, p_name text, p_session uuid, p_seq bigint,
  p_capacity bigint, p_weight bigint, p_ttl bigint, p_lease bigint, p_note text)
RETURNS TABLE (state text, fence bigint, word text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_one   integer := (p_key >> 32)::integer;
  v_two   integer := ((p_key << 32) >> 32)::integer;
  v_other bigint;
  v_name  text;
  v_got   boolean;
BEGIN
  SELECT k.name INTO v_name FROM bramah_keys k WHERE k.space = p_space AND k.key = p_key;
  IF v_name <> p_name THEN
    RETURN QUERY SELECT 'n', NULL::bigint, v_name;
    RETURN;
  END IF;
  -- What is left of those who have ended is there too, so pg_locks has the last word.
  IF EXISTS (SELECT FROM bramah_places WHERE space = p_space AND key = p_key AND capacity <> p_capacity) THEN
    SELECT p.capacity INTO v_other FROM bramah_places p JOIN bramah_advisory a USING (pid, space, key)
      WHERE p.space = p_space AND p.key = p_key AND p.capacity <> p_capacity LIMIT 1;
    IF FOUND THEN
      RETURN QUERY SELECT 'c', NULL::bigint, v_other::text;
      RETURN;
    END IF;
  END IF;
  v_got := CASE
    WHEN p_space = 1 AND p_weight < p_capacity THEN pg_try_advisory_lock_shared(p_key)
    WHEN p_space = 1 THEN pg_try_advisory_lock(p_key)
    WHEN p_weight < p_capacity THEN pg_try_advisory_lock_shared(v_one, v_two)
    ELSE pg_try_advisory_lock(v_one, v_two)
  END;
  IF NOT v_got THEN
    RETURN QUERY SELECT 'r', NULL::bigint, '1';
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM bramah_took(p_space, p_key, p_name, p_session, p_seq, p_capacity, p_weight, p_ttl, p_lease, p_note);
END $$;

-- Writes down that this connection will wait for a lock. How many are there already.
CREATE OR REPLACE FUNCTION bramah_line_up(p_space smallint, p_key bigint, p_name text, p_session uuid, p_seq bigint,
  p_capacity bigint, p_weight bigint, p_ttl bigint, p_lease bigint, p_note text)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bramah_places WHERE session = p_session AND seq = p_seq;
  INSERT INTO bramah_places (space, key, name, session, seq, pid, since, capacity, weight, ttl, lease, note, entered)
    VALUES (p_space, p_key, p_name, p_session, p_seq, pg_backend_pid(), bramah_since(),
            p_capacity, p_weight, p_ttl, p_lease, p_note, clock_timestamp());
  RETURN (SELECT count(*) FROM bramah_advisory WHERE space = p_space AND key = p_key);
END $$;

-- Releases a lock of this connection's, if it has it.
CREATE OR REPLACE FUNCTION bramah_let_go(p_space smallint, p_key bigint, p_shared boolean, p_session uuid, p_seq bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bramah_places WHERE session = p_session AND seq = p_seq;
  RETURN bramah_unlock(p_space, p_key, p_shared);
END $$;

-- Looks whether this connection has a lock, and nobody wants it to be given up; replaces its note, and raises its fence.
CREATE OR REPLACE FUNCTION bramah_tend(p_space smallint, p_key bigint, p_session uuid, p_seq bigint, p_note text, p_floor bigint)
RETURNS TABLE (state text, fence bigint, word text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_fence bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM bramah_advisory
                  WHERE pid = pg_backend_pid() AND space = p_space AND key = p_key AND granted) THEN
    RETURN QUERY SELECT 'g', NULL::bigint, NULL::text;
    RETURN;
  END IF;
  IF p_floor IS NOT NULL THEN
    UPDATE bramah_keys SET fence = greatest(fence, p_floor) WHERE space = p_space AND key = p_key RETURNING fence INTO v_fence;
  END IF;
  UPDATE bramah_places p SET note = p_note, fence = coalesce(v_fence, p.fence)
    WHERE p.session = p_session AND p.seq = p_seq AND p.pid = pg_backend_pid() AND NOT p.broken
    RETURNING p.fence INTO v_fence;
  RETURN QUERY SELECT CASE WHEN FOUND THEN 'h' ELSE 'g' END, v_fence, NULL::text;
END $$;

-- Wants a claim to be given up, and keeps a record of it.
CREATE OR REPLACE FUNCTION bramah_evict(p_name text, p_session uuid, p_seq bigint, p_by text, p_reason text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bramah_places SET broken = true WHERE session = p_session AND seq = p_seq;
  INSERT INTO bramah_breaks (name, session, seq, by, reason, at)
    VALUES (p_name, p_session, p_seq, p_by, p_reason, clock_timestamp())
    ON CONFLICT ON CONSTRAINT bramah_breaks_pkey DO UPDATE
       SET session = excluded.session, seq = excluded.seq, by = excluded.by, reason = excluded.reason, at = excluded.at;
END $$;

-- Clears away rows of connections that have ended.
CREATE OR REPLACE FUNCTION bramah_tidy() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bramah_places p WHERE p.entered < clock_timestamp() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM bramah_advisory a WHERE a.pid = p.pid AND a.space = p.space AND a.key = p.key);
END $$;
