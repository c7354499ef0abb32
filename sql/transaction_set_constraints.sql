-- SET CONSTRAINTS: the shards check deferrable constraints when plain PostgreSQL would.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA modes;
SET search_path = modes;
SELECT shardlet.create_map('modes', shardlets => 8);
CREATE TABLE a (k bigint, id int, u int, PRIMARY KEY (k, id), CONSTRAINT late UNIQUE (k, u) DEFERRABLE);
CREATE TABLE b (k bigint, id int, a int, PRIMARY KEY (k, id), CONSTRAINT later FOREIGN KEY (k, a) REFERENCES a DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE here (id int PRIMARY KEY, CONSTRAINT here_unique UNIQUE (id) DEFERRABLE);
CREATE TABLE code (id int PRIMARY KEY);
SELECT shardlet.make_reference('code');
ALTER TABLE b ADD c int CONSTRAINT of_code REFERENCES code DEFERRABLE INITIALLY DEFERRED;
SELECT shardlet.distribute_tables('{a, b}', 'modes', '{k}');
SELECT count(DISTINCT shardlet.route('modes', k::bigint)) > 1 AS several FROM generate_series(1, 4) k;

-- Deferred: rows may break them until the end, on shards that are used before and after.
BEGIN;
INSERT INTO a VALUES (1, 1, 1);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO a SELECT k, 2, 1 FROM generate_series(1, 4) k;
INSERT INTO a SELECT k, 3, 1 FROM generate_series(1, 4) k;
UPDATE a SET u = id;
COMMIT;
SELECT count(*), count(DISTINCT (k, u)) FROM a;
BEGIN;
SET CONSTRAINTS late DEFERRED;
UPDATE a SET u = 5 - u;
INSERT INTO a VALUES (1, 4, 2);
COMMIT;
SELECT count(*) FROM a;
-- Without it, and in the next transaction.
INSERT INTO a VALUES (1, 4, 2);
BEGIN;
INSERT INTO a VALUES (1, 4, 2);
ROLLBACK;

-- Immediate: checked at once, and from then on.
BEGIN;
INSERT INTO b SELECT k, 1, 99 FROM generate_series(1, 4) k;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
SET CONSTRAINTS later IMMEDIATE;
INSERT INTO b VALUES (1, 1, 99);
ROLLBACK;
BEGIN;
INSERT INTO b VALUES (1, 1, 99), (2, 1, 99);
SAVEPOINT s;
SET CONSTRAINTS modes.later IMMEDIATE;
ROLLBACK TO s;
INSERT INTO b VALUES (3, 1, 99), (4, 1, 99);
UPDATE b SET a = 1;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT count(*) FROM a;
UPDATE b SET a = 3 WHERE k > 1;
DELETE FROM b;
COMMIT;
INSERT INTO a SELECT k, 1, 1 FROM generate_series(2, 4) k;
-- The row of the reference table is new.
BEGIN;
INSERT INTO code VALUES (7);
INSERT INTO b VALUES (1, 1, 1, 7), (2, 1, 2, 7);
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO b VALUES (3, 1, 2, 8);
INSERT INTO code VALUES (8);
COMMIT;
SELECT count(*) FROM b;
DELETE FROM b;

-- Savepoints take modes back.
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO a VALUES (1, 5, 1);
ROLLBACK TO s;
INSERT INTO a VALUES (1, 5, 1);
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT s;
INSERT INTO a VALUES (1, 5, 1), (2, 5, 1);
ROLLBACK TO s;
INSERT INTO a VALUES (1, 6, 1), (2, 6, 1);
SAVEPOINT s;
SET CONSTRAINTS late IMMEDIATE;
ROLLBACK TO s;
SAVEPOINT s;
UPDATE a SET u = id;
SET CONSTRAINTS late IMMEDIATE;
RELEASE s;
INSERT INTO a VALUES (3, 5, 1);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
RELEASE s;
INSERT INTO a VALUES (1, 5, 1), (2, 5, 1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
-- What was replaced is not sent once more.
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS late, later DEFERRED;
INSERT INTO a VALUES (1, 5, 1), (2, 5, 1);
SAVEPOINT s;
INSERT INTO a VALUES (3, 5, 1);
ROLLBACK TO s;
INSERT INTO a VALUES (4, 5, 5);
UPDATE a SET u = id;
COMMIT;
SELECT count(*) FROM a WHERE id = 5;
DELETE FROM a WHERE id = 5;

-- An open cursor; functions; constraints of the router alone; wrong names.
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM a ORDER BY k;
INSERT INTO b VALUES (1, 1, 99);
FETCH 1 FROM c;
SET CONSTRAINTS here_unique DEFERRED;
SET CONSTRAINTS later IMMEDIATE;
ROLLBACK;
-- A connection that is lost.
\set VERBOSITY sqlstate
BEGIN;
INSERT INTO b VALUES (1, 1, 1);
SELECT bool_and(pg_terminate_backend(remote_pid, 5000)) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
\set VERBOSITY terse
DO $$ BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO a VALUES (1, 5, 1); UPDATE a SET u = 7 WHERE k = 1 AND id = 5; END $$;
DO $$ BEGIN INSERT INTO b VALUES (1, 1, 99); SET CONSTRAINTS ALL IMMEDIATE; END $$;
INSERT INTO a VALUES (1, 6, 7);
SET CONSTRAINTS ALL DEFERRED;
SET CONSTRAINTS nothing DEFERRED;
SET CONSTRAINTS a_pkey DEFERRED;
SELECT count(*) FROM b;
DROP TABLE a, b, here, code;
DROP SCHEMA modes;
SELECT shardlet.drop_map('modes');
