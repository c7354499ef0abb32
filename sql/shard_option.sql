-- Options of servers and user mappings: every libpq option, our own, and a
-- clear answer to the rest.

-- Every option that libpq knows for applications is accepted on a server, but
-- for those that say who connects.
CREATE SERVER lots FOREIGN DATA WRAPPER shardlet OPTIONS (
	host 'a,b', hostaddr '127.0.0.1,127.0.0.2', port '1,2', dbname 'd', service 's', passfile '/f',
	connect_timeout '3', client_encoding 'UTF8', options '-c geqo=off', application_name 'a',
	fallback_application_name 'f', keepalives '1', keepalives_idle '1', keepalives_interval '1',
	keepalives_count '1', tcp_user_timeout '1', sslmode 'prefer', sslcompression '0', sslcert '/c',
	sslkey '/k', sslrootcert '/r', sslcrl '/l', sslcrldir '/d', sslsni '1', requirepeer 'p',
	ssl_min_protocol_version 'TLSv1.2', ssl_max_protocol_version 'TLSv1.3', channel_binding 'prefer',
	gssencmode 'disable', krbsrvname 'k', gsslib 'gssapi', target_session_attrs 'any');
CREATE USER MAPPING FOR PUBLIC SERVER lots OPTIONS (user 'u', password 'p', sslpassword 's', sslcert '/c', sslkey '/k');
DROP SERVER lots CASCADE;

-- Our own.
CREATE SERVER own FOREIGN DATA WRAPPER shardlet OPTIONS (
	region 'r', weight '0.5', client_address '[::1]:5432', state 'read_only', bare 'off');
ALTER SERVER own OPTIONS (SET client_address 'host=h port=1 dbname=d');
ALTER SERVER own OPTIONS (SET client_address 'postgresql://h:1/d');
ALTER SERVER own OPTIONS (SET client_address 'h');
-- It is no shard before add_shard makes it one.
SELECT count(*) FROM shardlet.shards WHERE shard = 'own';
SELECT shardlet.alter_shard('own', region => 'x');

-- Wrong values.
ALTER SERVER own OPTIONS (SET weight '-1');
ALTER SERVER own OPTIONS (SET weight 'heavy');
ALTER SERVER own OPTIONS (SET weight 'NaN');
ALTER SERVER own OPTIONS (SET state 'moving');
ALTER SERVER own OPTIONS (SET bare 'perhaps');
ALTER SERVER own OPTIONS (ADD id '0');
ALTER SERVER own OPTIONS (ADD id 'one');
ALTER SERVER own OPTIONS (SET client_address 'h:');
ALTER SERVER own OPTIONS (SET client_address ':1');
ALTER SERVER own OPTIONS (SET client_address 'h:port');
ALTER SERVER own OPTIONS (SET client_address '[::1]x');
ALTER SERVER own OPTIONS (SET client_address 'user=u');
ALTER SERVER own OPTIONS (SET client_address 'hots=h');

-- Unknown names, with the closest one; options in the wrong place.
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (hots 'h');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (weigth '1');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (target_session_attr 'any');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (nothing_like_it 'x');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (replication 'database');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (oauth_issuer 'https://example.com');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (oauth_client_secret 'secret');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (password 'secret');
CREATE SERVER bad FOREIGN DATA WRAPPER shardlet OPTIONS (user 'u');
CREATE USER MAPPING FOR PUBLIC SERVER own OPTIONS (passwort 'secret');
CREATE USER MAPPING FOR PUBLIC SERVER own OPTIONS (oauth_client_secret 'secret');
CREATE USER MAPPING FOR PUBLIC SERVER own OPTIONS (host 'h');
CREATE USER MAPPING FOR PUBLIC SERVER own OPTIONS (weight '1');
ALTER FOREIGN DATA WRAPPER shardlet OPTIONS (ADD host 'h');

-- A foreign table made by hand is refused, and belongs to no map.
CREATE FOREIGN TABLE by_hand (a int) SERVER own;
CREATE FOREIGN TABLE by_hand (a int) SERVER shardlet_tables OPTIONS (map 'm', key 'a');
SET shardlet.carry_ddl = off;
CREATE FOREIGN TABLE by_hand (a int) SERVER own;
RESET shardlet.carry_ddl;
SELECT * FROM by_hand;
INSERT INTO by_hand VALUES (1);
UPDATE by_hand SET a = 2;
DELETE FROM by_hand;
TRUNCATE by_hand;
ANALYZE by_hand;
COPY by_hand TO STDOUT;
COPY by_hand FROM STDIN;
1
\.
DROP FOREIGN TABLE by_hand;
DROP SERVER own;
