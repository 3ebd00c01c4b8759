----
-- Session mode: locks in the server's memory, each for as long as a connection (GET_LOCK). The rows here only say who has them and
-- count the fences; whether somebody has one, IS_USED_LOCK alone knows.
--
-- A connection is its number and when the server was started, for numbers begin anew then: @bramah_boot, which a connection sets
-- at its beginning. What connections do is in a table of the same name on both servers, in different places, and each reads its
-- own: MySQL's other one is an error while anybody's statement has a character of four bytes in it. A wait that was ended from outside goes on with the next statement on MariaDB, and is an error on MySQL; so
-- whoever has waited looks whether it has the lock.

-- What the server calls each lock, and its last fence. Rows stay. MySQL takes capital letters for small ones in a lock's name and
-- MariaDB does not, so here they are the same.
CREATE TABLE IF NOT EXISTS bramah_keys (
  lock_name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL PRIMARY KEY,
  name      VARBINARY(200) NOT NULL,
  fence     BIGINT NOT NULL,
  KEY bramah_keys_name (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Who has a lock, or waits for one. A row whose connection neither has it nor waits is what is left of one that has ended.
CREATE TABLE IF NOT EXISTS bramah_places (
  place      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  lock_name  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  name       VARBINARY(200) NOT NULL,
  session    BINARY(16) NOT NULL,
  seq        BIGINT NOT NULL,
  connection BIGINT NOT NULL,
  boot       BIGINT NOT NULL,
  -- The user: others see nothing of its connections.
  account    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  capacity   BIGINT NOT NULL,
  weight     BIGINT NOT NULL,
  ttl        BIGINT NOT NULL,
  lease      BIGINT,
  note       VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  fence      BIGINT,
  entered    BIGINT NOT NULL,
  granted    BIGINT,
  -- Somebody wants it to be given up.
  broken     BOOLEAN NOT NULL DEFAULT FALSE,
  UNIQUE KEY bramah_places_id (session, seq),
  KEY bramah_places_lock (lock_name),
  KEY bramah_places_name (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
----
-- Writes down that this connection has a lock, if it has, and counts its fence. One whose key belongs to another name is let go.
--   h held, with its fence; n the key belongs to another name, in word; g this connection does not have it
CREATE PROCEDURE bramah_took(
  IN p_lock VARCHAR(64) CHARACTER SET ascii, IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_capacity BIGINT, IN p_weight BIGINT, IN p_ttl BIGINT, IN p_lease BIGINT, IN p_note VARCHAR(1024) CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now, v_fence BIGINT;
  DECLARE v_name VARBINARY(200);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  IF NOT (IS_USED_LOCK(p_lock) <=> CONNECTION_ID()) THEN
    SELECT 'g' AS state, NULL AS fence, NULL AS word;
  ELSE
    SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    START TRANSACTION;
    INSERT INTO bramah_keys (lock_name, name, fence) VALUES (p_lock, p_name, 1)
      ON DUPLICATE KEY UPDATE fence = CASE WHEN name = p_name THEN fence + 1 ELSE fence END;
    SELECT name, fence INTO v_name, v_fence FROM bramah_keys WHERE lock_name = p_lock;
    IF v_name <> p_name THEN
      DELETE FROM bramah_places WHERE session = p_session AND seq = p_seq;
      COMMIT;
      DO RELEASE_LOCK(p_lock);
      SELECT 'n' AS state, NULL AS fence, CONVERT(v_name USING utf8mb4) AS word;
    ELSE
      INSERT INTO bramah_places
          (lock_name, name, session, seq, connection, boot, account, capacity, weight, ttl, lease, note, fence, entered, granted)
        VALUES (p_lock, p_name, p_session, p_seq, CONNECTION_ID(), @bramah_boot, SUBSTRING_INDEX(USER(), '@', 1), p_capacity,
                p_weight, p_ttl, p_lease, p_note, v_fence, v_now, v_now)
        ON DUPLICATE KEY UPDATE fence = v_fence, granted = v_now;
      COMMIT;
      SELECT 'h' AS state, v_fence AS fence, NULL AS word;
    END IF;
  END IF;
END
----
-- Takes a lock if it is free. Answers as above, or
--   r it is not free; c it is in use with another capacity, in word
CREATE PROCEDURE bramah_take(
  IN p_lock VARCHAR(64) CHARACTER SET ascii, IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_capacity BIGINT, IN p_weight BIGINT, IN p_ttl BIGINT, IN p_lease BIGINT, IN p_note VARCHAR(1024) CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_name VARBINARY(200);
  DECLARE v_capacity BIGINT;
  SELECT name INTO v_name FROM bramah_keys WHERE lock_name = p_lock;
  SELECT capacity INTO v_capacity FROM bramah_places
   WHERE lock_name = p_lock AND capacity <> p_capacity AND boot = @bramah_boot AND connection = IS_USED_LOCK(p_lock) LIMIT 1;
  IF v_name <> p_name THEN
    SELECT 'n' AS state, NULL AS fence, CONVERT(v_name USING utf8mb4) AS word;
  ELSEIF v_capacity IS NOT NULL THEN
    SELECT 'c' AS state, NULL AS fence, CONCAT(v_capacity) AS word;
  ELSEIF GET_LOCK(p_lock, 0) <=> 1 THEN
    CALL bramah_took(p_lock, p_name, p_session, p_seq, p_capacity, p_weight, p_ttl, p_lease, p_note);
  ELSE
    SELECT 'r' AS state, NULL AS fence, '1' AS word;
  END IF;
END
----
-- Writes down that this connection will wait for a lock. How many are there already.
CREATE PROCEDURE bramah_line_up(
  IN p_lock VARCHAR(64) CHARACTER SET ascii, IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_capacity BIGINT, IN p_weight BIGINT, IN p_ttl BIGINT, IN p_lease BIGINT, IN p_note VARCHAR(1024) CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
  -- So that whoever has it is found by the name, also if it is another program.
  INSERT IGNORE INTO bramah_keys (lock_name, name, fence) VALUES (p_lock, p_name, 0);
  REPLACE INTO bramah_places
      (lock_name, name, session, seq, connection, boot, account, capacity, weight, ttl, lease, note, entered)
    VALUES (p_lock, p_name, p_session, p_seq, CONNECTION_ID(), @bramah_boot, SUBSTRING_INDEX(USER(), '@', 1), p_capacity, p_weight,
            p_ttl, p_lease, p_note, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)));
  SELECT (IS_USED_LOCK(p_lock) IS NOT NULL) + COUNT(*) AS ahead
    FROM bramah_places p JOIN /*!50700 performance_schema.*/ /*M! information_schema.*/ processlist l ON l.id = p.connection
   WHERE p.lock_name = p_lock AND p.boot = @bramah_boot AND l.state = 'User lock';
END
----
-- Releases a lock of this connection's, if it has it, however often.
CREATE PROCEDURE bramah_let_go(IN p_lock VARCHAR(64) CHARACTER SET ascii, IN p_session BINARY(16), IN p_seq BIGINT) SQL SECURITY INVOKER
BEGIN
  DECLARE v_released BOOLEAN;
  REPEAT
    SET v_released = RELEASE_LOCK(p_lock);
  UNTIL NOT COALESCE(v_released, FALSE) END REPEAT;
  DELETE FROM bramah_places WHERE session = p_session AND seq = p_seq;
END
----
-- Looks whether this connection has a lock, and nobody wants it to be given up; replaces its note, and raises its fence.
CREATE PROCEDURE bramah_tend(
  IN p_lock VARCHAR(64) CHARACTER SET ascii, IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_note VARCHAR(1024) CHARACTER SET utf8mb4, IN p_floor BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_place, v_fence BIGINT;
  IF IS_USED_LOCK(p_lock) <=> CONNECTION_ID() THEN
    SELECT place, fence INTO v_place, v_fence FROM bramah_places
     WHERE session = p_session AND seq = p_seq AND connection = CONNECTION_ID() AND boot = @bramah_boot AND NOT broken;
  END IF;
  IF v_place IS NULL THEN
    SELECT 'g' AS state, NULL AS fence, NULL AS word;
  ELSE
    IF p_floor > v_fence THEN
      UPDATE bramah_keys SET fence = GREATEST(fence, p_floor) WHERE lock_name = p_lock;
      SET v_fence = p_floor;
    END IF;
    UPDATE bramah_places SET note = p_note, fence = v_fence WHERE place = v_place;
    SELECT 'h' AS state, v_fence AS fence, NULL AS word;
  END IF;
END
----
-- Wants a claim to be given up, and keeps a record of it.
CREATE PROCEDURE bramah_evict(
  IN p_name VARBINARY(200), IN p_session BINARY(16), IN p_seq BIGINT,
  IN p_by TEXT CHARACTER SET utf8mb4, IN p_reason TEXT CHARACTER SET utf8mb4
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  UPDATE bramah_places SET broken = TRUE WHERE session = p_session AND seq = p_seq;
  INSERT INTO bramah_breaks (name, session, seq, ended_by, reason, ended)
    VALUES (p_name, p_session, p_seq, p_by, p_reason, v_now)
    ON DUPLICATE KEY UPDATE session = p_session, seq = p_seq, ended_by = p_by, reason = p_reason, ended = v_now;
END
----
-- Ends a connection, or only what it is doing, if the server was not started anew since. One that has ended already is no error.
CREATE PROCEDURE bramah_stop(IN p_connection BIGINT, IN p_boot BIGINT, IN p_now BIGINT, IN p_whole BOOLEAN) SQL SECURITY INVOKER
BEGIN
  DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;
  IF p_boot <> p_now THEN
    BEGIN END;
  ELSEIF p_whole THEN
    KILL CONNECTION p_connection;
  ELSE
    KILL QUERY p_connection;
  END IF;
END
----
-- Clears away rows of connections that have ended: some of them.
CREATE PROCEDURE bramah_tidy() SQL SECURITY INVOKER
BEGIN
  DECLARE v_place BIGINT;
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_left CURSOR FOR
    SELECT p.place FROM bramah_places p LEFT JOIN /*!50700 performance_schema.*/ /*M! information_schema.*/ processlist l ON l.id = p.connection
     WHERE p.entered < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 60000000
       AND (p.boot <> @bramah_boot
            OR l.id IS NULL AND p.account = SUBSTRING_INDEX(USER(), '@', 1) AND NOT (IS_USED_LOCK(p.lock_name) <=> p.connection))
     LIMIT 50;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  OPEN v_left;
  tidying: LOOP
    FETCH v_left INTO v_place;
    IF v_done THEN
      LEAVE tidying;
    END IF;
    DELETE FROM bramah_places WHERE place = v_place;
  END LOOP;
  CLOSE v_left;
END
----
-- A procedure of versions 1 and 2, which nothing calls any more.
DROP PROCEDURE IF EXISTS bramah_patience
----
-- When all the rest is there.
INSERT IGNORE INTO bramah_schema (version) VALUES (3)
