-- Who may do what.
CREATE ROLE plain LOGIN;
CREATE ROLE admin LOGIN;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO admin;
GRANT USAGE ON FOREIGN DATA WRAPPER shardlet TO admin;
SELECT shardlet.create_map('m', shardlets => 4);

-- Anyone may route and look.
SET ROLE plain;
SELECT shardlet.route('m', 1), (shardlet.locate('m', 1)).shard, shardlet.token(1) IS NOT NULL AS token,
	shardlet.map_json('m') ->> 'kind' AS kind, (SELECT count(*) FROM shardlet.route_many('m', ARRAY[1])) AS many;
SELECT (SELECT count(*) FROM shardlet.shards) AS shards, (SELECT count(*) FROM shardlet.maps) AS maps,
	(SELECT count(*) FROM shardlet.shardlets) AS shardlets, (SELECT count(*) FROM shardlet.map_shards) AS map_shards;
-- Only roles with the privilege may change, or see the tables behind.
\set VERBOSITY sqlstate
SELECT shardlet.add_shard('x');
SELECT shardlet.alter_shard('s1', region => 'x');
SELECT shardlet.drop_shard('s1');
SELECT shardlet.create_map('x');
SELECT shardlet.alter_map('m', add_shards => '{}');
SELECT shardlet.drop_map('m');
SELECT shardlet.assign_range('m', 's1', 1, 2);
SELECT shardlet.assign_key('m', 's1', 1);
SELECT shardlet.assign_keys('m', 's1', ARRAY[1]);
SELECT shardlet.assign_default('m', 's1');
SELECT shardlet.unassign(1);
SELECT shardlet.reassign(1, 's1');
SELECT shardlet.alter_shardlet(1, 'offline');
SELECT * FROM shardlet.health();
SELECT * FROM shardlet.catalog_map;
UPDATE shardlet.catalog_shardlet SET shard_id = 1;
\set VERBOSITY default

-- A shard is made by add_shard, not by an option.
SET ROLE admin;
CREATE SERVER fake FOREIGN DATA WRAPPER shardlet OPTIONS (id '77');
RESET ROLE;
SET ROLE plain;
SELECT shardlet.add_shard('x', 'host=localhost dbname=x');
RESET ROLE;
GRANT EXECUTE ON FUNCTION shardlet.add_shard TO plain;
SET ROLE plain;
SELECT shardlet.add_shard('x', 'host=localhost dbname=x');
RESET ROLE;

-- Who was told may change maps; shards are servers, which have owners.
SET ROLE admin;
SELECT shardlet.create_map('mine', shardlets => 4);
SELECT shardlet.drop_map('mine');
SELECT shardlet.alter_shard('s1', region => 'x');
SELECT shardlet.drop_shard('s1');
-- Without a password of one's own there is no connection: the server's own
-- credentials are not for everyone.
SELECT shardlet.add_shard('x');
SELECT shardlet.add_shard('x', 'host=localhost dbname=x');
SELECT shard, ok, message FROM shardlet.health() ORDER BY shard LIMIT 1;
RESET ROLE;
-- Nor with one that the shard does not ask for.
CREATE USER MAPPING FOR admin SERVER shardlet_tables OPTIONS (user 'admin', password 'secret');
SET ROLE admin;
SELECT shard, ok, message FROM shardlet.health() ORDER BY shard LIMIT 1;
RESET ROLE;
DROP USER MAPPING FOR admin SERVER shardlet_tables;
-- A user mapping's certificate is a file of the server's.
GRANT USAGE ON FOREIGN SERVER s1 TO plain;
SET ROLE plain;
CREATE USER MAPPING FOR plain SERVER s1 OPTIONS (user 'plain', password 'x', sslkey '/etc/ssl/private/key');
CREATE USER MAPPING FOR plain SERVER s1 OPTIONS (user 'plain', password 'x', sslcert '/etc/ssl/cert');
CREATE USER MAPPING FOR plain SERVER s1 OPTIONS (user 'plain', passfile '/var/lib/postgresql/.pgpass');
CREATE USER MAPPING FOR plain SERVER s1 OPTIONS (user 'plain', password 'x');
RESET ROLE;
DROP USER MAPPING FOR plain SERVER s1;

-- So is what a server's options may name; its owner is not always a superuser.
SET ROLE admin;
CREATE SERVER lent FOREIGN DATA WRAPPER shardlet OPTIONS (host 'localhost', passfile '/var/lib/postgresql/.pgpass');
CREATE SERVER lent FOREIGN DATA WRAPPER shardlet OPTIONS (host 'localhost', service 'x');
CREATE SERVER lent FOREIGN DATA WRAPPER shardlet OPTIONS (host 'localhost', sslcert '/etc/ssl/cert');
CREATE SERVER lent FOREIGN DATA WRAPPER shardlet OPTIONS (host 'localhost', sslrootcert '/etc/ssl/root', krbsrvname 'x');
ALTER SERVER lent OPTIONS (ADD sslkey '/etc/ssl/private/key');
RESET ROLE;
ALTER SERVER lent OPTIONS (ADD sslkey '/etc/ssl/private/key');
DROP SERVER lent;
SELECT shardlet.drop_map('m');
DROP OWNED BY plain, admin;
DROP ROLE plain, admin;
