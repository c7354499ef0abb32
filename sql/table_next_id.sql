-- next_id(): positive, growing, unique, with the number of the database in it.
-- No id and no time is printed, since those are never the same.
CREATE SCHEMA next_id;
SET search_path = next_id;

-- The router is number 0.
SELECT id > 0 AS positive, id >> 12 & 1023 AS node FROM shardlet.next_id() id;
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT shardlet.next_id(), n int);
INSERT INTO t (n) SELECT g FROM generate_series(1, 20000) g;
INSERT INTO t (n) VALUES (20001), (20002);
SELECT count(*), count(*) FILTER (WHERE previous >= id) AS disorder
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM t) AS ids;

-- The count goes on from one millisecond to the next: a rule by its low bits spreads rows.
CREATE TABLE slow (id bigint DEFAULT shardlet.next_id(), n int);
DO $$
BEGIN
	FOR i IN 1 .. 16 LOOP
		INSERT INTO slow (n) VALUES (i);
		PERFORM pg_sleep(0.002);
	END LOOP;
END $$;
SELECT count(DISTINCT id % 16) AS remainders, count(DISTINCT id >> 22) AS milliseconds FROM slow;

-- The rest of it is the time.
SELECT abs(extract(epoch FROM clock_timestamp() - (timestamptz '2024-01-01 00:00 UTC' + (id >> 22) * interval '1 ms'))) < 5 AS is_now
FROM shardlet.next_id() id;

-- A clock that goes backwards is one that was ahead: ids go on from there.
SELECT last_value AS now FROM shardlet.next_id_seq \gset
SELECT setval('shardlet.next_id_seq', :now + (3600 * 1000::bigint << 12)) > 0 AS ahead;
SELECT shardlet.next_id() AS a \gset
SELECT shardlet.next_id() AS b, shardlet.next_id() AS c \gset
SELECT :a < :b AND :b < :c AS grows, (:c - :a) AS steps,
	(:a >> 22) - (:now >> 12) BETWEEN 3600000 AND 3600001 AS from_there;
-- Also when a millisecond is used up, which makes it the next one.
SELECT setval('shardlet.next_id_seq', ((:now >> 12) + 7200000 << 12) + 4095) > 0 AS full;
SELECT shardlet.next_id() AS d \gset
SELECT :d > :c AS grows, (:d >> 22) - (:now >> 12) AS milliseconds, :d & 4095 AS counter;
-- And back, for the tests to come.
SELECT setval('shardlet.next_id_seq', :now) > 0 AS back;

-- The application's sequences do not notice.
CREATE SEQUENCE s;
SELECT nextval('s');
SELECT shardlet.next_id() > 0 AS positive;
SELECT lastval();

-- Every role may call it, and none the sequence.
CREATE ROLE next_id_user;
GRANT USAGE ON SCHEMA shardlet TO next_id_user;
SET ROLE next_id_user;
SELECT shardlet.next_id() > 0 AS positive;
\set VERBOSITY sqlstate
SELECT nextval('shardlet.next_id_seq');
RESET ROLE;
BEGIN READ ONLY;
SELECT shardlet.next_id();
ROLLBACK;
SELECT setval('shardlet.next_id_seq', 1::bigint << 53);
SELECT shardlet.next_id();
SELECT setval('shardlet.next_id_seq', :now) > 0 AS back;
\set VERBOSITY default

-- On a shard its id is the number.
SELECT dbname AS router_database FROM (SELECT current_database() AS dbname) d \gset
SELECT id AS shard_id FROM shardlet.shards WHERE shard = 's2' \gset
\c contrib_regression_s2
SELECT id >> 12 & 1023 = :shard_id AS node FROM shardlet.next_id() id;
-- The session cannot pretend to be another one.
SET shardlet.shard_id = '9';
SELECT id >> 12 & 1023 = :shard_id AS node FROM shardlet.next_id() id;
-- There is room for so many.
ALTER DATABASE contrib_regression_s2 SET shardlet.shard_id = 1024;
\c
SELECT shardlet.next_id();
-- A shard without a number refuses, since its ids could be the router's.
ALTER DATABASE contrib_regression_s2 RESET shardlet.shard_id;
\c
SELECT shardlet.next_id();
ALTER DATABASE contrib_regression_s2 SET shardlet.shard_id = :shard_id;
SELECT id >> 12 & 1023 = :shard_id AS node FROM shardlet.next_id() id;

\c :router_database
SET client_min_messages = warning;
REVOKE USAGE ON SCHEMA shardlet FROM next_id_user;
DROP ROLE next_id_user;
DROP SCHEMA next_id CASCADE;
