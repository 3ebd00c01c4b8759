-- Bramah's locks: tables and procedures, version 3. Written by `bramah init`, which may be run again at any time, and
-- brings those of versions 1 and 2 up to date. A line of dashes ends a statement, for procedures have semicolons in them.
--
-- A lock is a line of claims, a row each, in the order of their tickets. A claim is held when everything ahead of it, plus
-- itself, fits the capacity. Every procedure that changes a line locks the stripe of its name first, and keeps it to the end of
-- its transaction, so that places become visible in order. Nothing waits in a circle: a transaction locks one stripe, then rows of
-- that name alone, in the order of their tickets. A renewal locks no stripe, and rows of many names, in the order of their tickets.
-- SELECT * FROM bramah_locks shows who holds what.
--
-- Times are microseconds since 1970, of this server, in UTC. UTC_TIMESTAMP is read anew for each statement of a procedure
-- (only functions and triggers have it stand still), so it is read after the stripe was locked. SYSDATE would be local time:
-- where the clocks are set back in autumn, an hour of it comes twice.
--
-- What a call costs does not depend on the length of the line: it reads the holders and the first waiter by one index, which it
-- names, for the server's estimates of a table that was empty a moment ago are of no use; and it counts no further than 32.
--
-- There are procedures only, and no functions: with a binary log those need rights that few have. Rows are looked for by
-- SELECT ... INTO, which locks nothing, and changed by their primary keys: a SELECT within IF, SET or DELETE locks what it
-- reads, and a change by anything else may lock the rows of other lines.

CREATE TABLE IF NOT EXISTS bramah_schema (
  version INT NOT NULL PRIMARY KEY
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Names are bytes: texts would be equal to others that look alike, or that end in spaces.
CREATE TABLE IF NOT EXISTS bramah_claims (
  -- The place in line, and the fence of a grant that is exclusive: later grants have larger ones. It survives the server's
  -- end, also when the table is empty.
  ticket   BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name     VARBINARY(200) NOT NULL,
  session  BINARY(16) NOT NULL,
  seq      BIGINT NOT NULL,
  capacity BIGINT NOT NULL,
  weight   BIGINT NOT NULL,
  held     BOOLEAN NOT NULL,
  -- A larger fence than the ticket, where one was asked for.
  raised   BIGINT,
  entered  BIGINT NOT NULL,
  granted  BIGINT,
  -- It is gone after that.
  expires  BIGINT NOT NULL,
  -- Milliseconds: how long it is held after a sign of life, how long it may wait after one, and its fixed length.
  ttl      BIGINT NOT NULL,
  kept     BIGINT NOT NULL,
  lease    BIGINT,
  -- It was granted while it waited, and its fixed length has not begun.
  fresh    BOOLEAN NOT NULL DEFAULT FALSE,
  note     VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  UNIQUE KEY bramah_claims_id (session, seq),
  KEY bramah_claims_line (name, held, ticket)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Who is behind a session, for those who look.
CREATE TABLE IF NOT EXISTS bramah_sessions (
  session BINARY(16) NOT NULL PRIMARY KEY,
  about   TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  expires BIGINT NOT NULL,
  KEY bramah_sessions_expires (expires)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Tables of version 1 have no such key.
CREATE PROCEDURE bramah_upgrade() SQL SECURITY INVOKER
BEGIN
  DECLARE v_there BOOLEAN;
  SELECT COUNT(*) > 0 INTO v_there FROM information_schema.statistics
   WHERE table_schema = DATABASE() AND table_name = 'bramah_sessions' AND index_name = 'bramah_sessions_expires';
  IF NOT v_there THEN
    CREATE INDEX bramah_sessions_expires ON bramah_sessions (expires);
  END IF;
END
----
CALL bramah_upgrade()
----
DROP PROCEDURE bramah_upgrade
----
-- Names whose fences were raised above the tickets.
CREATE TABLE IF NOT EXISTS bramah_floors (
  name  VARBINARY(200) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- The last hold of each name that was ended by force.
CREATE TABLE IF NOT EXISTS bramah_breaks (
  name     VARBINARY(200) NOT NULL PRIMARY KEY,
  session  BINARY(16) NOT NULL,
  seq      BIGINT NOT NULL,
  ended_by TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reason   TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ended    BIGINT NOT NULL,
  KEY bramah_breaks_ended (ended)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Tables of version 1 and 2 have no such key.
CREATE PROCEDURE bramah_upgrade() SQL SECURITY INVOKER
BEGIN
  DECLARE v_there BOOLEAN;
  SELECT COUNT(*) > 0 INTO v_there FROM information_schema.statistics
   WHERE table_schema = DATABASE() AND table_name = 'bramah_breaks' AND index_name = 'bramah_breaks_ended';
  IF NOT v_there THEN
    CREATE INDEX bramah_breaks_ended ON bramah_breaks (ended);
  END IF;
END
----
CALL bramah_upgrade()
----
DROP PROCEDURE bramah_upgrade
----
-- Claims that somebody asks their holder to let go of. Those whose claim is gone are removed with the next wish.
CREATE TABLE IF NOT EXISTS bramah_wishes (
  session BINARY(16) NOT NULL,
  seq     BIGINT NOT NULL,
  PRIMARY KEY (session, seq)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- The locks of names. They are there beforehand: to lock a row that is not there would lock the gap where it would be, and two
-- who then want to make it wait for each other.
CREATE TABLE IF NOT EXISTS bramah_stripes (
  stripe INT NOT NULL PRIMARY KEY
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
INSERT IGNORE INTO bramah_stripes (stripe)
  WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 31)
  SELECT a.n * 32 + b.n FROM numbers a JOIN numbers b
----
CREATE OR REPLACE SQL SECURITY INVOKER VIEW bramah_locks AS
  SELECT CONVERT(c.name USING utf8mb4) AS name, c.held, c.ticket,
         CASE WHEN c.held AND c.weight = c.capacity THEN COALESCE(c.raised, c.ticket) END AS fence, s.about, c.note,
         TIMESTAMP'1970-01-01 00:00:00' + INTERVAL c.entered MICROSECOND AS entered,
         TIMESTAMP'1970-01-01 00:00:00' + INTERVAL c.granted MICROSECOND AS granted,
         TIMESTAMP'1970-01-01 00:00:00' + INTERVAL c.expires MICROSECOND AS expires
    FROM bramah_claims c LEFT JOIN bramah_sessions s ON s.session = c.session
   WHERE c.expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
----
-- Begins a transaction that reads what was committed before each statement, with the lock of a name. It is an error in the midst
-- of another one. Where a call is felt, the same is written out, with an INSERT that locks the row that is there: for that the
-- server makes no plan.
CREATE PROCEDURE bramah_guard(IN p_name VARBINARY(200)) SQL SECURITY INVOKER
BEGIN
  DECLARE v_stripe INT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT stripe INTO v_stripe FROM bramah_stripes WHERE stripe = CRC32(p_name) % 1024 FOR UPDATE;
  IF v_stripe IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1146, MESSAGE_TEXT = 'rows are missing in bramah_stripes';
  END IF;
END
----
-- The fence of a grant, if it is not the ticket. Names whose fences were raised are few.
CREATE PROCEDURE bramah_mint(IN p_name VARBINARY(200), IN p_ticket BIGINT, OUT p_raised BIGINT) SQL SECURITY INVOKER
BEGIN
  SELECT GREATEST(fence + 1, p_ticket) INTO p_raised FROM bramah_floors WHERE name = p_name;
  IF p_raised IS NOT NULL THEN
    UPDATE bramah_floors SET fence = p_raised WHERE name = p_name;
  END IF;
END
----
-- Takes out who is dead, and makes holders of those who fit now. The name's lock is held. With p_session and p_seq a claim of this
-- name is taken out too if p_leaves, and is else locked for its caller, in its turn. Holders have smaller tickets than all who wait,
-- so rows are locked in the order of their tickets.
CREATE PROCEDURE bramah_advance(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT, IN p_leaves BOOLEAN
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_used, v_ticket, v_weight, v_capacity, v_expires, v_raised, v_own BIGINT;
  DECLARE v_last BIGINT DEFAULT 0;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF p_session IS NOT NULL THEN
    SELECT ticket INTO v_own FROM bramah_claims WHERE session = p_session AND seq = p_seq;
  END IF;
  holding: LOOP
    SELECT MIN(ticket) INTO v_ticket FROM bramah_claims FORCE INDEX (bramah_claims_line)
     WHERE name = p_name AND held = 1 AND ticket > v_last AND (expires <= v_now OR ticket = v_own);
    IF v_ticket IS NULL THEN
      LEAVE holding;
    END IF;
    IF v_own IS NULL OR v_ticket <> v_own THEN
      -- One that seems dead may be renewed just now.
      DELETE FROM bramah_claims WHERE ticket = v_ticket AND expires <= v_now;
    ELSEIF p_leaves THEN
      DELETE FROM bramah_claims WHERE ticket = v_ticket;
    ELSE
      SELECT expires INTO v_expires FROM bramah_claims WHERE ticket = v_ticket FOR UPDATE;
      IF v_expires <= v_now THEN
        DELETE FROM bramah_claims WHERE ticket = v_ticket;
      END IF;
    END IF;
    SET v_last = v_ticket;
  END LOOP;
  SELECT COALESCE(SUM(weight), 0) INTO v_used FROM bramah_claims FORCE INDEX (bramah_claims_line)
   WHERE name = p_name AND held = 1;
  waiting: LOOP
    SET v_ticket = NULL;
    SELECT ticket, weight, capacity, expires INTO v_ticket, v_weight, v_capacity, v_expires
      FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name AND held = 0 ORDER BY ticket LIMIT 1;
    IF v_ticket IS NULL THEN
      LEAVE waiting;
    ELSEIF p_leaves AND v_ticket <=> v_own THEN
      DELETE FROM bramah_claims WHERE ticket = v_ticket;
    ELSEIF v_expires <= v_now THEN
      DELETE FROM bramah_claims WHERE ticket = v_ticket AND expires <= v_now;
    ELSEIF v_used + v_weight > v_capacity THEN
      IF p_leaves THEN
        DELETE FROM bramah_claims WHERE ticket = v_own;
      END IF;
      LEAVE waiting;
    ELSE
      CALL bramah_mint(p_name, v_ticket, v_raised);
      UPDATE bramah_claims
         SET held = 1, granted = v_now, expires = v_now + kept * 1000, raised = v_raised, fresh = lease IS NOT NULL
       WHERE ticket = v_ticket;
      SET v_used = v_used + v_weight;
    END IF;
  END LOOP;
END
----
-- How many are ahead of a place in line, where 32 stands for that many or more; and how long (ms) one at this place sleeps before it
-- asks. The first waiter times the holders. Those behind it ask only when the renewal of their session tells them to: an hour stands
-- for that.
CREATE PROCEDURE bramah_place(IN p_name VARBINARY(200), IN p_ticket BIGINT, OUT p_ahead BIGINT, OUT p_sleep BIGINT)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_holding, v_waiting, v_first BIGINT;
  SELECT COUNT(*), MIN(h.expires) INTO v_holding, v_first
    FROM (SELECT expires FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name AND held = 1) h;
  SELECT COUNT(*) INTO v_waiting
    FROM (SELECT 1 FROM bramah_claims FORCE INDEX (bramah_claims_line)
           WHERE name = p_name AND held = 0 AND ticket < p_ticket LIMIT 32) w;
  SET p_ahead = LEAST(v_holding + v_waiting, 32), p_sleep = 3600000;
  IF v_waiting = 0 THEN
    SET p_sleep = LEAST(GREATEST(
      (v_first - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) DIV 1000 + 2, 1), 3599999);
  END IF;
END
----
-- Where one stands that has a place, which this proves the life of. The name's lock is held, and the line advanced.
--   h held, with its fence and what is left of a fixed length; q waits, with how many are ahead, and how long to wait at the
--   most; g it is not there
CREATE PROCEDURE bramah_standing(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT, IN p_ttl BIGINT, IN p_kept BIGINT,
  IN p_note VARCHAR(1024) CHARACTER SET utf8mb4, IN p_floor BIGINT,
  OUT p_state CHAR(1) CHARACTER SET ascii, OUT p_fence BIGINT, OUT p_remains BIGINT, OUT p_ahead BIGINT, OUT p_sleep BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_ticket, v_raised, v_expires, v_lease BIGINT;
  DECLARE v_held, v_fresh BOOLEAN;
  SELECT ticket, raised, expires, lease, held, fresh INTO v_ticket, v_raised, v_expires, v_lease, v_held, v_fresh
    FROM bramah_claims WHERE session = p_session AND seq = p_seq;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_ticket IS NULL THEN
    SET p_state = 'g';
  ELSEIF NOT v_held THEN
    UPDATE bramah_claims SET expires = v_now + p_kept * 1000 WHERE ticket = v_ticket;
    SET p_state = 'q';
    CALL bramah_place(p_name, v_ticket, p_ahead, p_sleep);
  ELSE
    IF v_lease IS NULL THEN
      SET v_expires = v_now + p_ttl * 1000;
    ELSEIF v_fresh THEN
      SET v_expires = v_now + v_lease * 1000;
    END IF;
    IF p_floor > COALESCE(v_raised, v_ticket) THEN
      SET v_raised = p_floor;
      INSERT INTO bramah_floors (name, fence) VALUES (p_name, p_floor)
        ON DUPLICATE KEY UPDATE fence = GREATEST(fence, p_floor);
    END IF;
    UPDATE bramah_claims
       SET expires = v_expires, fresh = 0, raised = v_raised, ttl = p_ttl, kept = p_kept, note = p_note
     WHERE ticket = v_ticket;
    SET p_state = 'h', p_fence = COALESCE(v_raised, v_ticket);
    IF v_lease IS NOT NULL THEN
      SET p_remains = GREATEST((v_expires - v_now + 999) DIV 1000, 1);
    END IF;
  END IF;
END
----
-- Enters the line. Answers one row, as above, or
--   r refused; w it has no place and asks again; c the line is in use with another capacity, in ahead
CREATE PROCEDURE bramah_enter(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT, IN p_capacity BIGINT, IN p_weight BIGINT, IN p_ttl BIGINT,
  IN p_kept BIGINT, IN p_lease BIGINT, IN p_note VARCHAR(1024) CHARACTER SET utf8mb4, IN p_wait CHAR(1) CHARACTER SET ascii
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_ticket, v_raised, v_fence, v_remains, v_ahead, v_sleep BIGINT;
  DECLARE v_used BIGINT DEFAULT 0;
  DECLARE v_waiting BOOLEAN DEFAULT FALSE;
  DECLARE v_mine BOOLEAN;
  DECLARE v_state CHAR(1) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  -- What bramah_guard does, without a call.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO bramah_stripes (stripe) VALUES (CRC32(p_name) % 1024) ON DUPLICATE KEY UPDATE stripe = stripe;
  SELECT ticket INTO v_ticket FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name LIMIT 1;
  IF v_ticket IS NOT NULL THEN
    CALL bramah_advance(p_name, p_session, p_seq, FALSE);
    SELECT EXISTS (SELECT 1 FROM bramah_claims WHERE session = p_session AND seq = p_seq) INTO v_mine;
    IF v_mine THEN
      CALL bramah_standing(
        p_name, p_session, p_seq, p_ttl, p_kept, p_note, NULL, v_state, v_fence, v_remains, v_ahead, v_sleep);
    ELSE
      SELECT capacity INTO v_ahead FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name LIMIT 1;
      IF v_ahead <> p_capacity THEN
        SET v_state = 'c';
      ELSE
        SELECT COALESCE(SUM(weight), 0) INTO v_used FROM bramah_claims FORCE INDEX (bramah_claims_line)
         WHERE name = p_name AND held = 1;
        SELECT EXISTS (SELECT 1 FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name AND held = 0)
          INTO v_waiting;
      END IF;
    END IF;
  END IF;
  IF v_state IS NULL THEN
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    IF NOT v_waiting AND v_used + p_weight <= p_capacity THEN
      INSERT INTO bramah_claims
          (name, session, seq, capacity, weight, held, entered, granted, expires, ttl, kept, lease, note)
        VALUES (p_name, p_session, p_seq, p_capacity, p_weight, 1, v_now, v_now, v_now + COALESCE(p_lease, p_ttl) * 1000, p_ttl,
                p_kept, p_lease, p_note);
      SET v_state = 'h', v_fence = LAST_INSERT_ID(), v_remains = p_lease;
      SELECT fence INTO v_raised FROM bramah_floors WHERE name = p_name;
      IF v_raised IS NOT NULL THEN
        SET v_ticket = v_fence, v_fence = GREATEST(v_raised + 1, v_fence);
        UPDATE bramah_floors SET fence = v_fence WHERE name = p_name;
        UPDATE bramah_claims SET raised = v_fence WHERE ticket = v_ticket;
      END IF;
    ELSEIF p_wait = 'l' THEN
      INSERT INTO bramah_claims
          (name, session, seq, capacity, weight, held, entered, expires, ttl, kept, lease, note)
        VALUES (p_name, p_session, p_seq, p_capacity, p_weight, 0, v_now, v_now + p_kept * 1000, p_ttl, p_kept, p_lease, p_note);
      SET v_state = 'q', v_ticket = LAST_INSERT_ID();
      CALL bramah_place(p_name, v_ticket, v_ahead, v_sleep);
    ELSEIF p_wait = 'w' THEN
      SET v_state = 'w';
      CALL bramah_place(p_name, 0, v_ahead, v_sleep);
    ELSE
      SET v_state = 'r';
    END IF;
  END IF;
  COMMIT;
  SELECT v_state AS state, v_fence AS fence, v_remains AS remains, v_ahead AS ahead, v_sleep AS sleep;
END
----
-- Asks about a claim, and never enters it.
CREATE PROCEDURE bramah_ask(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT, IN p_ttl BIGINT, IN p_kept BIGINT,
  IN p_note VARCHAR(1024) CHARACTER SET utf8mb4, IN p_floor BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_fence, v_remains, v_ahead, v_sleep BIGINT;
  DECLARE v_mine BOOLEAN;
  DECLARE v_state CHAR(1) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  CALL bramah_guard(p_name);
  SELECT EXISTS (SELECT 1 FROM bramah_claims WHERE session = p_session AND seq = p_seq) INTO v_mine;
  IF v_mine THEN
    CALL bramah_advance(p_name, p_session, p_seq, FALSE);
  END IF;
  CALL bramah_standing(
    p_name, p_session, p_seq, p_ttl, p_kept, p_note, p_floor, v_state, v_fence, v_remains, v_ahead, v_sleep);
  COMMIT;
  SELECT v_state AS state, v_fence AS fence, v_remains AS remains, v_ahead AS ahead, v_sleep AS sleep;
END
----
-- Leaves, held or waiting. With p_by it is ended by force, and that is written down.
CREATE PROCEDURE bramah_leave(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_by TEXT CHARACTER SET utf8mb4, IN p_reason TEXT CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_ticket BIGINT;
  DECLARE v_others BOOLEAN;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  -- What bramah_guard does, without a call.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO bramah_stripes (stripe) VALUES (CRC32(p_name) % 1024) ON DUPLICATE KEY UPDATE stripe = stripe;
  SELECT ticket INTO v_ticket FROM bramah_claims WHERE session = p_session AND seq = p_seq AND name = p_name;
  IF v_ticket IS NOT NULL THEN
    IF p_by IS NOT NULL THEN
      SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
      INSERT INTO bramah_breaks (name, session, seq, ended_by, reason, ended)
        VALUES (p_name, p_session, p_seq, p_by, p_reason, v_now)
        ON DUPLICATE KEY UPDATE session = p_session, seq = p_seq, ended_by = p_by, reason = p_reason, ended = v_now;
    END IF;
    SELECT EXISTS (SELECT 1 FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = p_name AND ticket <> v_ticket)
      INTO v_others;
    IF v_others THEN
      CALL bramah_advance(p_name, p_session, p_seq, TRUE);
    ELSE
      DELETE FROM bramah_claims WHERE ticket = v_ticket;
    END IF;
  END IF;
  COMMIT;
END
----
-- Advances a line that nobody asks about, and takes out all the dead in it: also those behind one that lives and waits.
CREATE PROCEDURE bramah_nudge(IN p_name VARBINARY(200)) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_ticket BIGINT;
  DECLARE v_last BIGINT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  CALL bramah_guard(p_name);
  CALL bramah_advance(p_name, NULL, NULL, FALSE);
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  clearing: LOOP
    SELECT MIN(ticket) INTO v_ticket FROM bramah_claims FORCE INDEX (bramah_claims_line)
     WHERE name = p_name AND held = 0 AND ticket > v_last AND expires <= v_now;
    IF v_ticket IS NULL THEN
      LEAVE clearing;
    END IF;
    DELETE FROM bramah_claims WHERE ticket = v_ticket AND expires <= v_now;
    SET v_last = v_ticket;
  END LOOP;
  COMMIT;
END
----
-- Proves the life of claims of one session that have not expired, and lists what it has in any line, with numbers in a span.
-- p_claims is [[seq, ttl, kept], ...].
CREATE PROCEDURE bramah_renew(
  IN p_session BINARY(16), IN p_claims MEDIUMTEXT CHARACTER SET utf8mb4, IN p_first BIGINT, IN p_last BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_ticket, v_ttl, v_kept BIGINT;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_found CURSOR FOR
    SELECT c.ticket, a.ttl, a.kept
      FROM JSON_TABLE(p_claims, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', ttl BIGINT PATH '$[1]', kept BIGINT PATH '$[2]')) a
      JOIN bramah_claims c FORCE INDEX (bramah_claims_id) ON c.session = p_session AND c.seq = a.seq
     ORDER BY c.ticket;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  UPDATE bramah_sessions SET expires = v_now + 3600000000 WHERE session = p_session AND expires < v_now + 1800000000;
  SET v_done = FALSE;
  OPEN v_found;
  renewal: LOOP
    FETCH v_found INTO v_ticket, v_ttl, v_kept;
    IF v_done THEN
      LEAVE renewal;
    END IF;
    UPDATE bramah_claims
       SET expires = CASE
             WHEN NOT held THEN v_now + v_kept * 1000
             WHEN lease IS NULL OR fresh THEN v_now + v_ttl * 1000
             ELSE expires END,
           ttl = v_ttl, kept = v_kept
     WHERE ticket = v_ticket AND expires > v_now;
  END LOOP;
  CLOSE v_found;
  COMMIT;
  SELECT seq, held, FALSE AS asked, CONVERT(name USING utf8mb4) AS name, capacity, weight, ttl, lease, note
    FROM bramah_claims FORCE INDEX (bramah_claims_id)
   WHERE session = p_session AND seq BETWEEN p_first AND p_last AND expires > v_now;
END
----
-- Writes down who is behind a session, for as long as it is heard of, and clears away some that are not. One that was not heard of
-- for long is kept for as long as any claim of it, and the record of a break for a week.
CREATE PROCEDURE bramah_open(IN p_session BINARY(16), IN p_about TEXT CHARACTER SET utf8mb4) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_claimed BIGINT;
  DECLARE v_old BINARY(16);
  DECLARE v_name VARBINARY(200);
  DECLARE v_count INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  INSERT INTO bramah_sessions (session, about, expires) VALUES (p_session, p_about, v_now + 3600000000)
    ON DUPLICATE KEY UPDATE about = p_about, expires = v_now + 3600000000;
  COMMIT;
  clearing: WHILE v_count < 50 DO
    SET v_old = NULL;
    SELECT session INTO v_old FROM bramah_sessions WHERE expires < v_now ORDER BY expires LIMIT 1;
    IF v_old IS NULL THEN
      LEAVE clearing;
    END IF;
    SELECT MAX(expires) INTO v_claimed FROM bramah_claims WHERE session = v_old;
    IF v_claimed > v_now THEN
      UPDATE bramah_sessions SET expires = GREATEST(v_claimed, v_now + 60000000) WHERE session = v_old AND expires < v_now;
    ELSE
      DELETE FROM bramah_sessions WHERE session = v_old AND expires < v_now;
    END IF;
    SET v_count = v_count + 1;
  END WHILE;
  SET v_count = 0;
  forgetting: WHILE v_count < 50 DO
    SET v_name = NULL;
    SELECT name INTO v_name FROM bramah_breaks WHERE ended < v_now - 604800000000 ORDER BY ended LIMIT 1;
    IF v_name IS NULL THEN
      LEAVE forgetting;
    END IF;
    DELETE FROM bramah_breaks WHERE name = v_name AND ended < v_now - 604800000000;
    SET v_count = v_count + 1;
  END WHILE;
END
----
-- Notes that somebody asks the holder of a claim to let go: its session reads this with every renewal. Nothing is done to the line.
CREATE PROCEDURE bramah_wish(IN p_session BINARY(16), IN p_seq BIGINT) SQL SECURITY INVOKER
BEGIN
  DECLARE v_there BOOLEAN;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_session BINARY(16);
  DECLARE v_seq BIGINT;
  DECLARE v_past CURSOR FOR
    SELECT w.session, w.seq FROM bramah_wishes w LEFT JOIN bramah_claims c ON c.session = w.session AND c.seq = w.seq
     WHERE c.ticket IS NULL
        OR c.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  OPEN v_past;
  past: LOOP
    FETCH v_past INTO v_session, v_seq;
    IF v_done THEN
      LEAVE past;
    END IF;
    DELETE FROM bramah_wishes WHERE session = v_session AND seq = v_seq;
  END LOOP;
  CLOSE v_past;
  SELECT COUNT(*) > 0 INTO v_there FROM bramah_claims WHERE session = p_session AND seq = p_seq
     AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  IF v_there THEN
    INSERT IGNORE INTO bramah_wishes (session, seq) VALUES (p_session, p_seq);
  END IF;
END
----
-- Forgets who is behind a session that is closed, unless it has left a claim behind.
CREATE PROCEDURE bramah_close(IN p_session BINARY(16)) SQL SECURITY INVOKER
BEGIN
  DECLARE v_claimed BOOLEAN;
  SELECT EXISTS (SELECT 1 FROM bramah_claims WHERE session = p_session
                    AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) INTO v_claimed;
  IF NOT v_claimed THEN
    DELETE FROM bramah_sessions WHERE session = p_session;
  END IF;
END
----
-- Removes floors that are not needed any more: some of them. One is needed for as long as a ticket below it may be granted. A ticket
-- that is there was drawn, so all that are drawn from now on are larger; those in its own line may be smaller, and one may be
-- entering, so its line has to be empty and its name locked. Whoever has that lock is not waited for.
CREATE PROCEDURE bramah_lower() SQL SECURITY INVOKER
BEGIN
  DECLARE v_last BIGINT;
  DECLARE v_name VARBINARY(200);
  DECLARE v_stripe INT;
  DECLARE v_used BOOLEAN;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_floors CURSOR FOR
    SELECT f.name FROM bramah_floors f
     WHERE f.fence <= v_last AND NOT EXISTS (SELECT 1 FROM bramah_claims c WHERE c.name = f.name) LIMIT 50;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SELECT MAX(ticket) INTO v_last FROM bramah_claims;
  OPEN v_floors;
  lowering: LOOP
    SET v_done = FALSE;
    FETCH v_floors INTO v_name;
    IF v_done THEN
      LEAVE lowering;
    END IF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SET v_stripe = NULL;
    SELECT stripe INTO v_stripe FROM bramah_stripes WHERE stripe = CRC32(v_name) % 1024 FOR UPDATE SKIP LOCKED;
    SELECT EXISTS (SELECT 1 FROM bramah_claims WHERE name = v_name) INTO v_used;
    IF v_stripe IS NOT NULL AND NOT v_used THEN
      DELETE FROM bramah_floors WHERE name = v_name AND fence <= v_last;
    END IF;
    COMMIT;
  END LOOP;
  CLOSE v_floors;
END
----
-- Advances lines in which somebody died a while ago, and whom nobody asks about: some of them.
CREATE PROCEDURE bramah_sweep() SQL SECURITY INVOKER
BEGIN
  DECLARE v_name VARBINARY(200);
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_dead CURSOR FOR
    SELECT DISTINCT name FROM bramah_claims
     WHERE expires < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 10000000 LIMIT 50;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  OPEN v_dead;
  sweeping: LOOP
    SET v_done = FALSE;
    FETCH v_dead INTO v_name;
    IF v_done THEN
      LEAVE sweeping;
    END IF;
    CALL bramah_nudge(v_name);
  END LOOP;
  CLOSE v_dead;
  CALL bramah_lower();
END
