-- Adding, changing and forgetting shards.
SELECT current_setting('port') AS port, split_part(current_setting('unix_socket_directories'), ',', 1) AS host,
	current_database() AS router \gset
SELECT format('host=''%s'' port=%s', :'host', :'port') AS server \gset

-- With an address; names with quotes, dots, spaces and other characters.
CREATE DATABASE by_address TEMPLATE template0;
SELECT :'server' || ' dbname=by_address' AS conninfo \gset
SELECT shardlet.add_shard('it''s "my" s.hard ü', :'conninfo', region => 'eu', weight => 0.5);
SELECT shard, state, region, weight, dbname, bare FROM shardlet.shards WHERE dbname = 'by_address';
SELECT ok FROM shardlet.health() WHERE shard LIKE 'it''s%';
SELECT shardlet.create_map('a "map" of ''mine''.ü', 'list', shards => ARRAY['it''s "my" s.hard ü']::name[]);
SELECT shardlet.assign_key('a "map" of ''mine''.ü', NULL, 1) > 0 AS ok;
SELECT shardlet.route('a "map" of ''mine''.ü', 1);
SELECT shardlet.map_json('a "map" of ''mine''.ü') -> 'shards' -> 0 ->> 'shard' AS shard;

-- In use: neither drop_shard nor DROP SERVER.  A new name does no harm.
SELECT shardlet.drop_shard('it''s "my" s.hard ü');
DROP SERVER "it's ""my"" s.hard ü";
DROP SERVER "it's ""my"" s.hard ü" CASCADE;
ALTER SERVER "it's ""my"" s.hard ü" RENAME TO plain;
SELECT shardlet.route('a "map" of ''mine''.ü', 1);
SELECT shard, ok, message FROM shardlet.health() WHERE shard = 'plain';
-- Its id is its own.
\set VERBOSITY terse
ALTER SERVER plain OPTIONS (SET id '1');
ALTER SERVER plain OPTIONS (DROP id);
\set VERBOSITY default
CREATE SERVER other FOREIGN DATA WRAPPER shardlet OPTIONS (id '1');
-- By force the keys go with it; the database stays.
SELECT shardlet.drop_shard('plain', force => true);
SELECT shardlet.route('a "map" of ''mine''.ü', 1);
SELECT count(*) FROM shardlet.map_shards WHERE map LIKE 'a %';
SELECT count(*) FROM pg_database WHERE datname = 'by_address';
SELECT shardlet.drop_map('a "map" of ''mine''.ü');

-- With a server that was made before; its options are kept.
SELECT format('CREATE SERVER by_server FOREIGN DATA WRAPPER shardlet OPTIONS (host %L, port %L, dbname %L, weight ''3'', state ''read_only'')',
	:'host', :'port', 'by_address') AS sql \gset
:sql;
SELECT shardlet.add_shard('by_server', region => 'eu');
SELECT shard, state, region, weight, dbname FROM shardlet.shards WHERE shard = 'by_server';
SELECT srvname FROM pg_foreign_server WHERE srvname = 'shardlet_tables';

-- The same database under another name, however it is written; the router.
SELECT shardlet.add_shard('twin', format('host=''%s/.'' port=%s dbname=by_address', :'host', :'port'));
SELECT shardlet.add_shard('twin', :'conninfo', install => false);
SELECT shardlet.add_shard('router', :'server' || ' dbname=' || :'router');
-- A copy of a shard's database is another database, and gets its own identity.
SELECT shardlet.drop_shard('by_server');
SELECT shardlet.add_shard('origin', :'conninfo');
-- The worker may be there.
SELECT count(pg_terminate_backend(pid)) >= 0 AS done FROM pg_stat_activity WHERE datname = 'by_address';
CREATE DATABASE copy TEMPLATE by_address;
SELECT identity FROM shardlet.shards WHERE shard = 'origin' \gset
ALTER DATABASE copy SET shardlet.identity = :'identity';
SELECT shardlet.add_shard('copy', :'server' || ' dbname=copy');
SELECT count(DISTINCT identity) FROM shardlet.shards WHERE shard IN ('origin', 'copy');
SELECT shard, ok FROM shardlet.health() WHERE shard IN ('origin', 'copy') ORDER BY shard;

-- A database swapped behind our back is noticed at the next connection.
SELECT shardlet.close_connections() > 0 AS closed;
ALTER DATABASE copy RENAME TO aside;
ALTER DATABASE by_address RENAME TO copy;
SELECT shard, ok FROM shardlet.health() WHERE shard IN ('origin', 'copy') ORDER BY shard;
SELECT message FROM shardlet.health() WHERE shard = 'copy';
SELECT shardlet.alter_shard('copy', state => 'offline');
\set VERBOSITY sqlstate
SELECT shardlet.alter_shard('copy', state => 'online');
SELECT shardlet.alter_shard('origin', 'dbname=aside');
SELECT shardlet.alter_shard('origin', 'dbname=postgres');
\set VERBOSITY default
-- Found again where it is now.
SELECT shardlet.alter_shard('origin', 'dbname=copy'), shardlet.alter_shard('copy', 'dbname=aside', state => 'online');
SELECT shard, ok, message FROM shardlet.health() WHERE shard IN ('origin', 'copy') ORDER BY shard;
SELECT shard, dbname, state FROM shardlet.shards WHERE shard IN ('origin', 'copy') ORDER BY shard;
-- A shard dropped behind our back.
SELECT shardlet.close_connections() > 0 AS closed;
DROP DATABASE aside;
SELECT shard, ok FROM shardlet.health() WHERE shard IN ('origin', 'copy') ORDER BY shard;
SELECT shardlet.drop_shard('copy'), shardlet.drop_shard('origin');

-- Bare: no extension there.
CREATE DATABASE bare TEMPLATE template0;
SELECT shardlet.add_shard('bare', :'server' || ' dbname=bare', install => false);
SELECT bare FROM shardlet.shards WHERE shard = 'bare';
\c bare
SELECT count(*) FROM pg_extension WHERE extname = 'shardlet';
SELECT length(current_setting('shardlet.identity'));
\c :router
SELECT shardlet.drop_shard('bare');

-- A local database survives a ROLLBACK, and is taken again.
BEGIN;
SELECT shardlet.add_shard('s5');
ROLLBACK;
SELECT count(*) FROM shardlet.shards WHERE shard = 's5';
SELECT datname FROM pg_database WHERE datname LIKE '%\_s5';
SELECT shardlet.add_shard('s5');
SELECT ok FROM shardlet.health() WHERE shard = 's5';
-- Forgotten and taken again, too; but not what another user made.
SELECT shardlet.drop_shard('s5');
SELECT shardlet.add_shard('s5');
SELECT shardlet.drop_shard('s5');
DROP DATABASE contrib_regression_s5;
CREATE DATABASE contrib_regression_s5;
SELECT shardlet.add_shard('s5');
DROP DATABASE contrib_regression_s5;

-- Not one that has something in it.
SELECT shardlet.add_shard('s6');
SELECT shardlet.drop_shard('s6');
\c contrib_regression_s6
CREATE TABLE precious ();
\c :router
\set VERBOSITY terse
SELECT shardlet.add_shard('s6');

-- Operators of other users are not called with the rights of the caller.
CREATE FUNCTION trap(text[], text[]) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
CREATE OPERATOR @> (FUNCTION = trap, LEFTARG = text[], RIGHTARG = text[]);
CREATE FUNCTION trap(jsonb, text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
CREATE OPERATOR ->> (FUNCTION = trap, LEFTARG = jsonb, RIGHTARG = text);
SET search_path = public, pg_catalog;
SELECT shardlet.add_shard('s6');
SELECT shardlet.add_shard('s7');
SELECT shardlet.drop_shard('s7');
\set VERBOSITY default
RESET search_path;
DROP FUNCTION trap(text[], text[]) CASCADE;
DROP FUNCTION trap(jsonb, text) CASCADE;
DROP DATABASE contrib_regression_s6;
DROP DATABASE contrib_regression_s7;

-- A duplicate database is found even if the session hides the identity, or it was lost.
SELECT shardlet.add_shard('twin', replace(:'server', 'port', 'options=''-c shardlet.identity='' port') || ' dbname=contrib_regression_s1');
ALTER DATABASE contrib_regression_s1 RESET shardlet.identity;
SELECT shardlet.add_shard('twin', :'server' || ' dbname=contrib_regression_s1');
SELECT identity FROM shardlet.shards WHERE shard = 's1' \gset
ALTER DATABASE contrib_regression_s1 SET shardlet.identity = :'identity';

-- Servers of other wrappers are none of our business, whatever their options.
CREATE FOREIGN DATA WRAPPER another;
CREATE SERVER another FOREIGN DATA WRAPPER another OPTIONS (id '5');
ALTER SERVER another RENAME TO still_another;
ALTER SERVER still_another OPTIONS (SET id '1');
DROP FOREIGN DATA WRAPPER another CASCADE;

-- Empty takes away.
SELECT shardlet.alter_shard('s4', client_address => '', region => '');
SELECT client_address IS NULL AS gone FROM shardlet.shards WHERE shard = 's4';
SELECT shardlet.alter_shard('s4', client_address => 'db4.example.com:6432');

-- Other encodings and collations.
CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C';
SELECT shardlet.add_shard('latin', :'server' || ' dbname=latin');
CREATE DATABASE icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de';
SELECT shardlet.add_shard('icu', :'server' || ' dbname=icu') IS NOT NULL AS added;
SELECT shardlet.drop_shard('icu');
-- A local shard sorts as its router does, by ICU's rules too where there are any.
SELECT CASE WHEN current_setting('server_version_num')::int >= 160000 THEN $$ICU_RULES '&a < z'$$ ELSE '' END AS rules \gset
CREATE DATABASE ruled TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' :rules;
\c ruled
SELECT 'z' < 'b' AS ruled \gset
CREATE EXTENSION shardlet;
SELECT shardlet.add_shard('s1');
\c ruled_s1
SELECT ('z' < 'b') = :'ruled' AS same, 'ä' < 'b' AS icu;
\c :router
DROP DATABASE ruled;
DROP DATABASE ruled_s1;

-- Wrong input.
SELECT shardlet.add_shard('s1');
SELECT shardlet.add_shard('s1', 'dbname=x');
SELECT shardlet.add_shard(NULL);
SELECT shardlet.add_shard('');
SELECT shardlet.add_shard('shardlet_tables');
SELECT shardlet.add_shard('x', '');
SELECT shardlet.add_shard('x', 'nonsense');
SELECT shardlet.add_shard('x', 'password=se cret dbname=x');
SELECT shardlet.add_shard('x', 'hots=x');
SELECT shardlet.add_shard('x', 'replication=true dbname=x');
SELECT shardlet.add_shard('x', 'postgresql://u:secret@[::1');
SELECT shardlet.add_shard('x', :'conninfo', weight => -1);
SELECT shardlet.add_shard('x', :'conninfo', client_address => 'h:p');
SELECT shardlet.add_shard(repeat('x', 60)::name);
SELECT shardlet.alter_shard('nonesuch', state => 'online');
SELECT shardlet.alter_shard('s1', state => 'asleep');
SELECT shardlet.alter_shard('s1', state => 'moving');
SELECT shardlet.alter_shard('s1', state => '');
SELECT shardlet.alter_shard('s1', weight => 'NaN');
SELECT shardlet.alter_shard('s1', 'nonsense');
SELECT shardlet.drop_shard('nonesuch');
SELECT shardlet.drop_shard(NULL);
\set VERBOSITY sqlstate
SELECT shardlet.add_shard('x', 'host=localhost port=1 dbname=x');
SELECT shardlet.add_shard('x', :'server' || ' dbname=nonesuch');
SELECT shardlet.add_shard('x', 'host=/nonesuch dbname=x');
SELECT shardlet.alter_shard('s1', 'port=1');
\set VERBOSITY default
CREATE EXTENSION postgres_fdw;
CREATE SERVER theirs FOREIGN DATA WRAPPER postgres_fdw;
SELECT shardlet.add_shard('theirs');
DROP EXTENSION postgres_fdw CASCADE;
-- The router is as before.
SELECT shard, state, weight FROM shardlet.shards ORDER BY shard;
SELECT count(*) FROM pg_user_mappings;
DROP DATABASE copy;
DROP DATABASE bare;
DROP DATABASE latin;
DROP DATABASE icu;
