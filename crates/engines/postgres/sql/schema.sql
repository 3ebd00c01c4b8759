-- Bramah's locks: tables and functions, version 3. Written by `bramah init`, which may be run again at any time, and
-- brings those of versions 1 and 2 up to date.
--
-- A lock is a line of claims, a row each, in the order of their tickets. A claim is held when everything ahead of it, plus
-- itself, fits the capacity. Every function that changes a line takes its name's lock first, and keeps it to the end of the
-- transaction, so that places become visible in order; time is that of this server, read after the lock was taken.
--
-- Nothing waits in a circle: a transaction takes one name's lock, then locks rows of that name alone, in the order of their
-- tickets. A renewal takes no name's lock, and locks rows of many names, in the order of their tickets.
--
-- SELECT * FROM bramah_locks shows who holds what. bramah_enter and bramah_leave have what bramah_guard does in themselves: a
-- function that calls no other on its way through an empty line is the faster for it.
--
-- What a call costs does not depend on the length of the line: it reads the holders and the first waiter by one index, and counts
-- no further than 32. Plans are cached per connection, and one that was made while the table was almost empty would scan the
-- table when it is not: so the functions run with enable_seqscan off, and no index has the order of tickets without the name.

-- Tables of versions 1 and 2 are altered below: they are locked in the order in which renewals use them.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('bramah_claims') AND conname = 'bramah_claims_session_seq_key') THEN
    LOCK TABLE bramah_sessions, bramah_claims IN ACCESS EXCLUSIVE MODE;
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS bramah_schema (
  version integer NOT NULL PRIMARY KEY,
  since   timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS bramah_claims (
  -- The place in line, and the fence of a grant that is exclusive: later grants have larger ones.
  ticket   bigint GENERATED ALWAYS AS IDENTITY,
  name     text COLLATE "C" NOT NULL,
  session  uuid NOT NULL,
  seq      bigint NOT NULL,
  capacity bigint NOT NULL,
  weight   bigint NOT NULL,
  held     boolean NOT NULL,
  -- A larger fence than the ticket, where one was asked for.
  raised   bigint,
  entered  timestamptz NOT NULL,
  granted  timestamptz,
  -- It is gone after that.
  until    timestamptz NOT NULL,
  -- Milliseconds: how long it is held after a sign of life, how long it may wait after one, and its fixed length.
  ttl      bigint NOT NULL,
  kept     bigint NOT NULL,
  lease    bigint,
  -- It was granted while it waited, and its fixed length has not begun.
  fresh    boolean NOT NULL DEFAULT false,
  note     text NOT NULL,
  PRIMARY KEY (session, seq)
) WITH (fillfactor = 70);

-- Tables of versions 1 and 2 have other indexes.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'bramah_claims'::regclass AND conname = 'bramah_claims_session_seq_key') THEN
    ALTER TABLE bramah_claims DROP CONSTRAINT bramah_claims_pkey, DROP CONSTRAINT bramah_claims_session_seq_key,
      ADD PRIMARY KEY (session, seq);
    DROP INDEX bramah_claims_line;
  END IF;
END $$;

CREATE INDEX IF NOT EXISTS bramah_claims_line ON bramah_claims (name, held, ticket);

-- Who is behind a session, for those who look.
CREATE TABLE IF NOT EXISTS bramah_sessions (
  session uuid PRIMARY KEY,
  about   text NOT NULL,
  until   timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS bramah_sessions_until ON bramah_sessions (until);

-- Names whose fences were raised above the tickets.
CREATE TABLE IF NOT EXISTS bramah_floors (
  name  text COLLATE "C" PRIMARY KEY,
  fence bigint NOT NULL
);

-- Who wants to be told that a line has room, and has no place in it.
CREATE TABLE IF NOT EXISTS bramah_watchers (
  name    text COLLATE "C" NOT NULL,
  session uuid NOT NULL,
  until   timestamptz NOT NULL,
  PRIMARY KEY (name, session)
);

CREATE INDEX IF NOT EXISTS bramah_watchers_until ON bramah_watchers (until);

-- The last hold of each name that was ended by force.
CREATE TABLE IF NOT EXISTS bramah_breaks (
  name    text COLLATE "C" PRIMARY KEY,
  session uuid NOT NULL,
  seq     bigint NOT NULL,
  by      text NOT NULL,
  reason  text NOT NULL,
  at      timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS bramah_breaks_at ON bramah_breaks (at);

-- Claims that somebody asks their holder to let go of. Those whose claim is gone are removed with the next wish.
CREATE TABLE IF NOT EXISTS bramah_wishes (
  session uuid NOT NULL,
  seq     bigint NOT NULL,
  PRIMARY KEY (session, seq)
);

CREATE OR REPLACE VIEW bramah_locks AS
  SELECT c.name, c.held, c.ticket, CASE WHEN c.held AND c.weight = c.capacity THEN coalesce(c.raised, c.ticket) END AS fence,
         s.about, c.note, c.entered, c.granted, c.until
    FROM bramah_claims c LEFT JOIN bramah_sessions s USING (session)
   WHERE c.until > clock_timestamp()
   ORDER BY c.name, c.ticket;

-- The lock of a name, to the end of the transaction.
CREATE OR REPLACE FUNCTION bramah_guard(p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'bramah needs transactions that read what was committed before each statement'
      USING ERRCODE = 'BR001', HINT = 'set default_transaction_isolation to ''read committed'' for this user';
  END IF;
  PERFORM pg_advisory_xact_lock(1651663213, hashtext(p_name));
END $$;

CREATE OR REPLACE FUNCTION bramah_tell(p_session uuid, p_what text) RETURNS void LANGUAGE sql AS $$
  SELECT pg_notify('bramah_' || replace(p_session::text, '-', ''), p_what)
$$;

-- The fence of a grant. Names whose fences were raised are few.
CREATE OR REPLACE FUNCTION bramah_mint(p_name text, p_ticket bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_fence bigint;
BEGIN
  IF EXISTS (SELECT FROM bramah_floors WHERE name = p_name) THEN
    UPDATE bramah_floors SET fence = greatest(fence + 1, p_ticket) WHERE name = p_name RETURNING fence INTO v_fence;
  END IF;
  RETURN v_fence;
END $$;

-- Takes out who is dead, and makes holders of those who fit now. The name's lock is held. With p_session and p_seq a claim of this
-- name is taken out too if p_leaves, and is else locked for its caller, in its turn. Whether anybody is left.
-- Holders have smaller tickets than all who wait, so rows are locked in the order of their tickets.
DROP FUNCTION IF EXISTS bramah_advance(text, boolean);
CREATE OR REPLACE FUNCTION bramah_advance(p_name text, p_session uuid, p_seq bigint, p_leaves boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_now   timestamptz := clock_timestamp();
  v_freed boolean := p_leaves;
  v_used  bigint;
  v_head  bramah_claims%ROWTYPE;
BEGIN
  FOR v_head IN
    SELECT * FROM bramah_claims
     WHERE name = p_name AND held AND (until <= v_now OR session = p_session AND seq = p_seq) ORDER BY ticket FOR UPDATE
  LOOP
    IF v_head.until <= v_now OR p_leaves AND v_head.session = p_session AND v_head.seq = p_seq THEN
      DELETE FROM bramah_claims WHERE session = v_head.session AND seq = v_head.seq;
      v_freed := true;
    END IF;
  END LOOP;
  SELECT coalesce(sum(weight), 0) INTO v_used FROM bramah_claims WHERE name = p_name AND held;
  LOOP
    SELECT * INTO v_head FROM bramah_claims WHERE name = p_name AND NOT held ORDER BY ticket LIMIT 1 FOR UPDATE;
    EXIT WHEN NOT FOUND;
    IF v_head.until <= v_now OR p_leaves AND v_head.session = p_session AND v_head.seq = p_seq THEN
      DELETE FROM bramah_claims WHERE session = v_head.session AND seq = v_head.seq;
      CONTINUE;
    END IF;
    IF v_used + v_head.weight > v_head.capacity THEN
      IF p_leaves THEN
        DELETE FROM bramah_claims WHERE session = p_session AND seq = p_seq;
      END IF;
      RETURN true;
    END IF;
    v_head.raised := bramah_mint(p_name, v_head.ticket);
    UPDATE bramah_claims
       SET held = true, granted = v_now, until = v_now + v_head.kept * interval '1 ms', raised = v_head.raised,
           fresh = v_head.lease IS NOT NULL
     WHERE session = v_head.session AND seq = v_head.seq;
    PERFORM bramah_tell(v_head.session, 'g ' || v_head.seq || ' ' || coalesce(v_head.raised, v_head.ticket));
    v_used := v_used + v_head.weight;
  END LOOP;
  -- Nobody waits: those without a place may try.
  IF v_freed THEN
    PERFORM bramah_tell(w.session, 'w ' || p_name) FROM bramah_watchers w WHERE w.name = p_name AND w.until > v_now;
    IF FOUND THEN
      DELETE FROM bramah_watchers WHERE name = p_name;
    END IF;
  END IF;
  RETURN v_used > 0;
END $$;

-- How many are ahead of a place in line; 32 stands for that many or more.
CREATE OR REPLACE FUNCTION bramah_ahead(p_name text, p_ticket bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN least(32,
    (SELECT count(*) FROM (SELECT FROM bramah_claims WHERE name = p_name AND held LIMIT 32) h)
    + (SELECT count(*) FROM (SELECT FROM bramah_claims WHERE name = p_name AND NOT held AND ticket < p_ticket LIMIT 32) w));
END $$;

-- Where one stands that has a place, which this proves the life of. The name's lock is held, and the line advanced.
--   h held, with its fence and what is left of a fixed length; q waits, with how many are ahead, and how long to wait at the
--   most; g it is not there
CREATE OR REPLACE FUNCTION bramah_standing(
  p_name text, p_session uuid, p_seq bigint, p_ttl bigint, p_kept bigint, p_note text, p_floor bigint,
  OUT state text, OUT fence bigint, OUT remains bigint, OUT ahead bigint, OUT sleep bigint
) LANGUAGE plpgsql AS $$
DECLARE
  v_now   timestamptz := clock_timestamp();
  v_claim bramah_claims%ROWTYPE;
BEGIN
  SELECT * INTO v_claim FROM bramah_claims WHERE session = p_session AND seq = p_seq FOR UPDATE;
  IF NOT FOUND THEN
    state := 'g';
    RETURN;
  END IF;
  IF NOT v_claim.held THEN
    UPDATE bramah_claims SET until = v_now + p_kept * interval '1 ms' WHERE session = p_session AND seq = p_seq;
    ahead := bramah_ahead(p_name, v_claim.ticket);
    state := 'q';
    sleep := bramah_patience(p_name, v_claim.ticket, p_kept);
    RETURN;
  END IF;
  IF v_claim.lease IS NULL THEN
    v_claim.until := v_now + p_ttl * interval '1 ms';
  ELSIF v_claim.fresh THEN
    v_claim.until := v_now + v_claim.lease * interval '1 ms';
  END IF;
  IF p_floor > coalesce(v_claim.raised, v_claim.ticket) THEN
    v_claim.raised := p_floor;
    INSERT INTO bramah_floors AS f (name, fence) VALUES (p_name, p_floor)
      ON CONFLICT ON CONSTRAINT bramah_floors_pkey DO UPDATE SET fence = greatest(f.fence, excluded.fence);
  END IF;
  UPDATE bramah_claims
     SET until = v_claim.until, fresh = false, raised = v_claim.raised, ttl = p_ttl, kept = p_kept, note = p_note
   WHERE session = p_session AND seq = p_seq;
  state := 'h';
  fence := coalesce(v_claim.raised, v_claim.ticket);
  IF v_claim.lease IS NOT NULL THEN
    remains := greatest(ceil(extract(epoch FROM v_claim.until - v_now) * 1000), 1);
  END IF;
END $$;

-- How long (ms) one at this place sleeps before it asks. The first waiter times the holders. Those behind it ask only when they are
-- told to, by NOTIFY or by the renewal of their session: an hour stands for that.
CREATE OR REPLACE FUNCTION bramah_patience(p_name text, p_ticket bigint, p_kept bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_end timestamptz;
BEGIN
  IF EXISTS (SELECT FROM bramah_claims WHERE name = p_name AND NOT held AND ticket < p_ticket) THEN
    RETURN 3600000;
  END IF;
  SELECT min(until) INTO v_end FROM bramah_claims WHERE name = p_name AND held;
  RETURN least(greatest(ceil(extract(epoch FROM v_end - clock_timestamp()) * 1000) + 1, 1), 3599999);
END $$;

-- Enters the line. Answers as above, or
--   r refused; w it has no place and is told when there is room; c the line is in use with another capacity, in ahead
CREATE OR REPLACE FUNCTION bramah_enter(
  p_name text, p_session uuid, p_seq bigint, p_capacity bigint, p_weight bigint, p_ttl bigint, p_kept bigint, p_lease bigint,
  p_note text, p_wait text,
  OUT state text, OUT fence bigint, OUT remains bigint, OUT ahead bigint, OUT sleep bigint
) LANGUAGE plpgsql AS $$
DECLARE
  v_now     timestamptz;
  v_used    bigint := 0;
  v_waiting boolean := false;
  v_ticket  bigint;
  v_raised  bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bramah_guard(p_name);
  END IF;
  PERFORM pg_advisory_xact_lock(1651663213, hashtext(p_name));
  IF EXISTS (SELECT FROM bramah_claims WHERE name = p_name) AND bramah_advance(p_name, p_session, p_seq, false) THEN
    IF EXISTS (SELECT FROM bramah_claims WHERE session = p_session AND seq = p_seq) THEN
      SELECT * INTO state, fence, remains, ahead, sleep
        FROM bramah_standing(p_name, p_session, p_seq, p_ttl, p_kept, p_note, NULL);
      RETURN;
    END IF;
    SELECT coalesce(sum(c.weight), 0), min(c.capacity) INTO v_used, ahead FROM bramah_claims c WHERE c.name = p_name AND c.held;
    IF ahead <> p_capacity THEN
      state := 'c';
      RETURN;
    END IF;
    v_waiting := EXISTS (SELECT FROM bramah_claims c WHERE c.name = p_name AND NOT c.held);
  END IF;
  v_now := clock_timestamp();
  IF NOT v_waiting AND v_used + p_weight <= p_capacity THEN
    INSERT INTO bramah_claims AS c
        (name, session, seq, capacity, weight, held, entered, granted, until, ttl, kept, lease, note)
      VALUES (p_name, p_session, p_seq, p_capacity, p_weight, true, v_now, v_now,
              v_now + coalesce(p_lease, p_ttl) * interval '1 ms', p_ttl, p_kept, p_lease, p_note)
      RETURNING c.ticket INTO v_ticket;
    IF EXISTS (SELECT FROM bramah_floors WHERE name = p_name) THEN
      v_raised := bramah_mint(p_name, v_ticket);
      UPDATE bramah_claims SET raised = v_raised WHERE session = p_session AND seq = p_seq;
    END IF;
    state := 'h';
    fence := coalesce(v_raised, v_ticket);
    remains := p_lease;
  ELSIF p_wait = 'l' THEN
    INSERT INTO bramah_claims AS c
        (name, session, seq, capacity, weight, held, entered, until, ttl, kept, lease, note)
      VALUES (p_name, p_session, p_seq, p_capacity, p_weight, false, v_now, v_now + p_kept * interval '1 ms', p_ttl, p_kept,
              p_lease, p_note)
      RETURNING c.ticket INTO v_ticket;
    state := 'q';
    ahead := bramah_ahead(p_name, v_ticket);
    sleep := bramah_patience(p_name, v_ticket, p_kept);
  ELSIF p_wait = 'w' THEN
    INSERT INTO bramah_watchers AS w (name, session, until) VALUES (p_name, p_session, v_now + p_ttl * interval '1 ms')
      ON CONFLICT ON CONSTRAINT bramah_watchers_pkey DO UPDATE SET until = excluded.until;
    state := 'w';
    sleep := bramah_patience(p_name, 0, p_kept);
  ELSE
    state := 'r';
  END IF;
END $$;

-- Asks about a claim, and never enters it.
CREATE OR REPLACE FUNCTION bramah_ask(
  p_name text, p_session uuid, p_seq bigint, p_ttl bigint, p_kept bigint, p_note text, p_floor bigint,
  OUT state text, OUT fence bigint, OUT remains bigint, OUT ahead bigint, OUT sleep bigint
) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bramah_guard(p_name);
  IF EXISTS (SELECT FROM bramah_claims WHERE session = p_session AND seq = p_seq) THEN
    PERFORM bramah_advance(p_name, p_session, p_seq, false);
  END IF;
  SELECT * INTO state, fence, remains, ahead, sleep
    FROM bramah_standing(p_name, p_session, p_seq, p_ttl, p_kept, p_note, p_floor);
END $$;

-- Leaves, held or waiting. With p_by it is ended by force, and that is written down. Whether it was there.
CREATE OR REPLACE FUNCTION bramah_leave(
  p_name text, p_session uuid, p_seq bigint, p_by text, p_reason text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_others boolean;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bramah_guard(p_name);
  END IF;
  PERFORM pg_advisory_xact_lock(1651663213, hashtext(p_name));
  -- The name is compared with the row that was found: as a condition it might have the row looked for by its line.
  IF (SELECT name FROM bramah_claims WHERE session = p_session AND seq = p_seq) IS DISTINCT FROM p_name THEN
    RETURN false;
  END IF;
  v_others := EXISTS (SELECT FROM bramah_claims WHERE name = p_name AND (session <> p_session OR seq <> p_seq))
    OR EXISTS (SELECT FROM bramah_watchers WHERE name = p_name);
  IF p_by IS NOT NULL THEN
    INSERT INTO bramah_breaks (name, session, seq, by, reason, at)
      VALUES (p_name, p_session, p_seq, p_by, p_reason, clock_timestamp())
      ON CONFLICT ON CONSTRAINT bramah_breaks_pkey DO UPDATE
         SET session = excluded.session, seq = excluded.seq, by = excluded.by, reason = excluded.reason, at = excluded.at;
    PERFORM bramah_tell(p_session, 'b ' || p_seq);
  END IF;
  IF v_others THEN
    PERFORM bramah_advance(p_name, p_session, p_seq, true);
  ELSE
    DELETE FROM bramah_claims WHERE session = p_session AND seq = p_seq;
  END IF;
  RETURN true;
END $$;

-- Notes that somebody asks the holder of a claim to let go, and tells its session, which also reads this with every renewal. Nothing is
-- done to the line.
CREATE OR REPLACE FUNCTION bramah_wish(p_session uuid, p_seq bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bramah_wishes w
   WHERE NOT EXISTS (SELECT FROM bramah_claims c WHERE c.session = w.session AND c.seq = w.seq AND c.until > clock_timestamp());
  IF EXISTS (SELECT FROM bramah_claims WHERE session = p_session AND seq = p_seq AND until > clock_timestamp()) THEN
    INSERT INTO bramah_wishes (session, seq) VALUES (p_session, p_seq) ON CONFLICT DO NOTHING;
    PERFORM bramah_tell(p_session, 'a ' || p_seq);
  END IF;
END $$;

-- Advances a line that nobody asks about, and takes out all the dead in it: also those behind one that lives and waits.
CREATE OR REPLACE FUNCTION bramah_nudge(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now  timestamptz;
  v_dead bramah_claims%ROWTYPE;
BEGIN
  PERFORM bramah_guard(p_name);
  PERFORM bramah_advance(p_name, NULL, NULL, false);
  v_now := clock_timestamp();
  FOR v_dead IN
    SELECT * FROM bramah_claims WHERE name = p_name AND NOT held AND until <= v_now ORDER BY ticket FOR UPDATE
  LOOP
    IF v_dead.until <= v_now THEN
      DELETE FROM bramah_claims WHERE session = v_dead.session AND seq = v_dead.seq;
    END IF;
  END LOOP;
END $$;

-- Names of lines in which somebody died a while ago, and whom nobody asks about: some of them, for whoever opens a session to
-- nudge, each in a transaction of its own. Before that, clears some of what lines have left.
--
-- A floor is needed for as long as a ticket below it may be granted. A ticket that is there was drawn, so all that are drawn from now
-- on are larger; those in its own line may be smaller, and one may be entering, so its line has to be empty and its name locked. That
-- lock is only tried, for a transaction that waits has one name at the most.
DROP FUNCTION IF EXISTS bramah_sweep();
CREATE OR REPLACE FUNCTION bramah_dead() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  v_now  timestamptz := clock_timestamp();
  v_last bigint;
  v_name text;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bramah_guard('');
  END IF;
  DELETE FROM bramah_watchers WHERE (name, session) IN (
    SELECT name, session FROM bramah_watchers WHERE until < v_now - interval '1 minute' ORDER BY until LIMIT 50
       FOR UPDATE SKIP LOCKED
  );
  -- Any ticket that was drawn will do: some are looked at, not all.
  SELECT max(c.ticket) INTO v_last FROM (SELECT ticket FROM bramah_claims LIMIT 100) c;
  FOR v_name IN
    SELECT f.name FROM bramah_floors f
     WHERE f.fence <= v_last AND NOT EXISTS (SELECT FROM bramah_claims c WHERE c.name = f.name) LIMIT 50
  LOOP
    IF pg_try_advisory_xact_lock(1651663213, hashtext(v_name)) THEN
      DELETE FROM bramah_floors f
       WHERE f.name = v_name AND f.fence <= v_last AND NOT EXISTS (SELECT FROM bramah_claims c WHERE c.name = v_name);
    END IF;
  END LOOP;
  RETURN QUERY SELECT d.name::text
    FROM (SELECT DISTINCT c.name FROM bramah_claims c WHERE c.until < clock_timestamp() - interval '10 seconds') d
   ORDER BY random() LIMIT 50;
END $$;

-- Writes down who is behind a session, for as long as it is heard of, and clears away some of what others have left. A session that
-- was not heard of for long is kept for as long as any claim of it, and the record of a break for a week.
CREATE OR REPLACE FUNCTION bramah_open(p_session uuid, p_about text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bramah_guard('');
  END IF;
  INSERT INTO bramah_sessions AS s (session, about, until) VALUES (p_session, p_about, v_now + interval '1 hour')
    ON CONFLICT ON CONSTRAINT bramah_sessions_pkey DO UPDATE SET about = excluded.about, until = excluded.until;
  WITH old AS MATERIALIZED (
    SELECT s.session, (SELECT max(c.until) FROM bramah_claims c WHERE c.session = s.session) AS claimed
      FROM bramah_sessions s WHERE s.until < v_now ORDER BY s.until LIMIT 50 FOR UPDATE OF s SKIP LOCKED
  ), kept AS (
    UPDATE bramah_sessions s SET until = greatest(old.claimed, v_now + interval '1 minute')
      FROM old WHERE s.session = old.session AND old.claimed > v_now
  )
  DELETE FROM bramah_sessions s USING old WHERE s.session = old.session AND (old.claimed > v_now) IS NOT TRUE;
  DELETE FROM bramah_breaks WHERE name IN (
    SELECT name FROM bramah_breaks WHERE at < v_now - interval '7 days' ORDER BY at LIMIT 50 FOR UPDATE SKIP LOCKED
  );
END $$;

-- Forgets who is behind a session that is closed, unless it has left a claim behind.
CREATE OR REPLACE FUNCTION bramah_close(p_session uuid) RETURNS void LANGUAGE sql AS $$
  DELETE FROM bramah_sessions s WHERE s.session = p_session
     AND NOT EXISTS (SELECT FROM bramah_claims c WHERE c.session = p_session AND c.until > clock_timestamp())
$$;

-- Proves the life of claims of one session that have not expired, and lists what else it has in any line, with numbers in a span:
-- the spans of all calls of a round have each number once. Rows are locked in the order of their tickets, as elsewhere, and without
-- any name's lock.
CREATE OR REPLACE FUNCTION bramah_renew(
  p_session uuid, p_seqs bigint[], p_ttls bigint[], p_kepts bigint[], p_first bigint, p_last bigint
)
RETURNS TABLE (seq bigint, held boolean, asked boolean, name text, capacity bigint, weight bigint, ttl bigint, lease bigint, note text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bramah_guard('');
  END IF;
  UPDATE bramah_sessions SET until = clock_timestamp() + interval '1 hour'
    WHERE session = p_session AND until < clock_timestamp() + interval '30 minutes';
  PERFORM FROM bramah_claims c
    WHERE c.session = p_session AND c.seq = ANY (p_seqs) AND c.until > clock_timestamp() ORDER BY c.ticket FOR UPDATE;
  RETURN QUERY
    WITH asked AS (SELECT * FROM unnest(p_seqs, p_ttls, p_kepts) AS a (seq, ttl, kept)),
    renewed AS (
      UPDATE bramah_claims c
         SET until = CASE
               WHEN NOT c.held THEN clock_timestamp() + a.kept * interval '1 ms'
               WHEN c.lease IS NULL OR c.fresh THEN clock_timestamp() + a.ttl * interval '1 ms'
               ELSE c.until END,
             ttl = a.ttl, kept = a.kept
        FROM asked a
       WHERE c.session = p_session AND c.seq = a.seq AND c.until > clock_timestamp()
      RETURNING c.seq, c.held
    )
    SELECT r.seq, r.held, true, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text FROM renewed r
    UNION ALL
    SELECT c.seq, c.held, false, c.name::text, c.capacity, c.weight, c.ttl, c.lease, c.note FROM bramah_claims c
     WHERE c.session = p_session AND c.seq BETWEEN p_first AND p_last AND c.until > clock_timestamp()
       AND NOT EXISTS (SELECT FROM asked a WHERE a.seq = c.seq);
END $$;

-- The same as version 1 has it, for its clients that run while the tables are brought up to date: without it they would lose all that
-- they hold.
CREATE OR REPLACE FUNCTION bramah_renew(p_session uuid, p_seqs bigint[], p_ttls bigint[], p_kepts bigint[])
RETURNS TABLE (seq bigint, held boolean, asked boolean, name text, capacity bigint, weight bigint, ttl bigint, lease bigint, note text)
LANGUAGE sql AS $$
  SELECT * FROM bramah_renew(p_session, p_seqs, p_ttls, p_kepts, 0::bigint, 9223372036854775807::bigint)
$$;

ALTER FUNCTION bramah_enter(text, uuid, bigint, bigint, bigint, bigint, bigint, bigint, text, text) SET enable_seqscan = off;
ALTER FUNCTION bramah_ask(text, uuid, bigint, bigint, bigint, text, bigint) SET enable_seqscan = off;
ALTER FUNCTION bramah_leave(text, uuid, bigint, text, text) SET enable_seqscan = off;
ALTER FUNCTION bramah_nudge(text) SET enable_seqscan = off;
ALTER FUNCTION bramah_renew(uuid, bigint[], bigint[], bigint[], bigint, bigint) SET enable_seqscan = off;

INSERT INTO bramah_schema (version) VALUES (3) ON CONFLICT DO NOTHING;
