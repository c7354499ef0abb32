-- Last: the extension can be dropped with everything that hangs on it, and
-- made again, in the same session.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT shardlet.route('m', 1);
DROP EXTENSION shardlet;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION shardlet CASCADE;
RESET client_min_messages;
\set VERBOSITY default
SELECT count(*) FROM pg_foreign_server;
SELECT count(*) FROM pg_namespace WHERE nspname = 'shardlet';
CREATE EXTENSION shardlet;
SELECT shardlet.route('m', 1);
-- The local databases are still there, and marked.
SELECT shardlet.add_shard('s1');
SELECT shardlet.create_map('m', shardlets => 4);
SELECT shardlet.route('m', 1);
-- A server without the extension is none of our business.
SET client_min_messages = warning;
DROP SCHEMA shardlet CASCADE;
RESET client_min_messages;
CREATE EXTENSION postgres_fdw;
CREATE SERVER theirs FOREIGN DATA WRAPPER postgres_fdw;
ALTER SERVER theirs RENAME TO others;
DROP EXTENSION postgres_fdw CASCADE;
