
# Row-level security of shell tables: for its own users the router decides, whichever
# way a statement is executed.  Each statement runs on distributed tables and on plain
# ones with the same rows and policies.  Ordinary users need a password that the
# shards ask for, which is why this is no regress test.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);

for my $shard (1, 2)
{
	$c->shard_sql($shard, q{
		CREATE ROLE app LOGIN SUPERUSER PASSWORD 'app-pw';
		CREATE ROLE weak LOGIN PASSWORD 'weak-pw';
		CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN});
	unlink $c->shard($shard)->data_dir . '/pg_hba.conf';
	$c->shard($shard)->append_conf('pg_hba.conf',
		"local all all trust\nhost all app,weak 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust");
	$c->shard($shard)->reload;
}
$c->sql(q{
	SELECT shardlet.create_map('m');
	CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE carol;
	CREATE USER MAPPING FOR PUBLIC SERVER shardlet_tables OPTIONS (user 'app', password 'app-pw');
	CREATE USER MAPPING FOR carol SERVER s1 OPTIONS (user 'weak', password 'weak-pw');
	CREATE USER MAPPING FOR carol SERVER s2 OPTIONS (user 'weak', password 'weak-pw');
	CREATE SCHEMA x; CREATE SCHEMA x_plain;
	GRANT USAGE ON SCHEMA x, x_plain TO PUBLIC});

# Rows of tenant 1 make 10 / (tenant - 1) fail.
for my $schema ('x', 'x_plain')
{
	$c->sql(qq{
		SET search_path = $schema;
		CREATE TABLE notes (tenant bigint, id int, owner name, body text, PRIMARY KEY (tenant, id));
		CREATE TABLE lines (tenant bigint, id int, note int, amount int, PRIMARY KEY (tenant, id));
		CREATE TABLE members (tenant bigint, member name, PRIMARY KEY (tenant, member));
		CREATE TABLE docs (tenant bigint, id int, body text, PRIMARY KEY (tenant, id));
		CREATE TABLE parts (tenant bigint, id int, body text, PRIMARY KEY (tenant, id)) PARTITION BY RANGE (id);
		CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (20);
		CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (20) TO (1000);
		INSERT INTO notes SELECT i % 5, i, (ARRAY['alice', 'bob'])[i % 2 + 1], 'body' || i FROM generate_series(1, 40) i;
		INSERT INTO lines SELECT i % 5, i, i % 20, i * 10 FROM generate_series(1, 60) i;
		INSERT INTO members VALUES (1, 'alice'), (2, 'alice'), (2, 'bob'), (3, 'carol'), (4, 'bob');
		INSERT INTO docs SELECT i % 5, i, CASE i % 5 WHEN 3 THEN 'hidden' ELSE i::text END FROM generate_series(1, 30) i;
		INSERT INTO parts SELECT i % 5, i, 'part' || i FROM generate_series(1, 30) i;
		CREATE VIEW plain_view AS SELECT * FROM notes;
		CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM notes WHERE id > 10;
		GRANT ALL ON ALL TABLES IN SCHEMA $schema TO PUBLIC;
		ALTER VIEW plain_view OWNER TO bob; ALTER VIEW barrier OWNER TO bob;
		CREATE POLICY tenant ON notes USING (tenant = (SELECT current_setting('app.tenant')::bigint));
		ALTER TABLE notes ENABLE ROW LEVEL SECURITY});
}
$c->sql(q{SELECT shardlet.distribute_tables('{x.notes,x.lines,x.members,x.docs,x.parts}', 'm', '{tenant}')});

# The other tables get their policies afterwards.
for my $schema ('x', 'x_plain')
{
	$c->sql(qq{
		SET search_path = $schema;
		CREATE POLICY own ON notes AS RESTRICTIVE FOR SELECT TO bob USING (owner = current_user);
		CREATE POLICY tenant ON lines USING (tenant = current_setting('app.tenant')::bigint)
			WITH CHECK (tenant = current_setting('app.tenant')::bigint AND amount < 10000);
		CREATE POLICY member ON docs USING (EXISTS
			(SELECT FROM members WHERE members.tenant = docs.tenant AND member = current_user));
		CREATE POLICY tenant ON parts USING (tenant = current_setting('app.tenant')::bigint);
		ALTER TABLE lines ENABLE ROW LEVEL SECURITY; ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
		ALTER TABLE parts ENABLE ROW LEVEL SECURITY});
}

# Runs a statement on both, in one transaction that is rolled back; returns how it was
# executed, and the results.
sub both
{
	my ($user, $query) = @_;
	my $begin = "SET app.tenant = 3; SET ROLE $user; BEGIN;";
	my (undef, $plan) = $c->psql_err("$begin SET search_path = x; EXPLAIN (COSTS OFF) $query");
	my @nodes = $plan =~ /(Ship|Scatter|Modify|Foreign)/g;
	my @results;

	for my $path ('x', 'x_plain')
	{
		my ($status, $stdout, $stderr) = $c->psql_err("$begin SET search_path = $path; $query");
		my ($error) = $stderr =~ /ERROR:  (.*)/;
		my ($detail) = $stderr =~ /ERROR:  23.*\nDETAIL:  (.*)/;

		push @results, join "\n", (sort split /\n/, $status == 0 ? $stdout : ''), $error // (), $detail // ();
	}
	return (join(' ', @nodes), @results);
}

my %by_plan;
for my $line (grep { /\S/ } split /\n/, <<'QUERIES')
SELECT * FROM notes	Ship
SELECT * FROM notes WHERE id = 8	Ship
SELECT count(*) FROM notes	Ship
SELECT * FROM notes WHERE tenant = 3	Ship
SELECT * FROM notes WHERE tenant = 4	Ship
SELECT * FROM notes WHERE tenant IN (3, 4)	Ship
SELECT * FROM notes JOIN lines USING (tenant) WHERE note = notes.id	Ship
SELECT * FROM notes JOIN lines ON note = notes.id	Ship
SELECT * FROM notes LEFT JOIN lines ON note = notes.id AND notes.tenant = lines.tenant	Ship
SELECT * FROM notes RIGHT JOIN lines ON note = notes.id AND notes.tenant = lines.tenant	Ship
SELECT * FROM notes FULL JOIN lines ON note = notes.id	Foreign Foreign
SELECT * FROM members LEFT JOIN notes USING (tenant)	Foreign
SELECT * FROM members LEFT JOIN notes USING (tenant) WHERE tenant = 2	Foreign Foreign
SELECT * FROM members NATURAL RIGHT JOIN notes	Ship
SELECT * FROM notes NATURAL RIGHT JOIN members	Foreign
SELECT * FROM members LEFT JOIN notes ON notes.tenant = members.tenant	Scatter
SELECT * FROM members LEFT JOIN notes ON notes.tenant = members.tenant WHERE members.tenant = 2	Ship
SELECT * FROM members LEFT JOIN (notes JOIN lines ON notes.id = note AND notes.tenant = lines.tenant) ON members.tenant = notes.tenant	Scatter
SELECT * FROM members LEFT JOIN (notes LEFT JOIN lines ON notes.id = note AND notes.tenant = lines.tenant) ON members.tenant = notes.tenant	Scatter
SELECT * FROM docs	Scatter
SELECT count(*) FROM docs	Scatter
SELECT * FROM docs WHERE tenant = 2	Ship
SELECT tenant % 2, count(*), avg(id) FROM docs GROUP BY 1	Scatter
SELECT id FROM docs ORDER BY id LIMIT 3	Scatter
SELECT * FROM docs WHERE body::int > 4	Foreign Foreign
SELECT * FROM docs JOIN notes ON docs.id = notes.id AND docs.tenant = notes.tenant	Ship
SELECT * FROM notes WHERE body LIKE 'body1%'	Foreign
SELECT * FROM notes WHERE 10 / (tenant - 1) > 0	Foreign
SELECT * FROM (SELECT 10 / (tenant - 1) AS n FROM notes) s WHERE n > 0	Foreign
WITH s AS (SELECT 10 / (tenant - 1) AS n FROM notes) SELECT * FROM s WHERE n > 0	Foreign
SELECT * FROM notes, LATERAL generate_series(1, 10 / (tenant - 1)::int)	Foreign
SELECT * FROM notes JOIN lines ON 10 / (notes.tenant - 1) > 0 AND notes.id = note AND notes.tenant = lines.tenant	Foreign Foreign
SELECT * FROM notes WHERE id IN (SELECT id FROM lines WHERE 10 / (tenant - 1) > 0)	Foreign Foreign
SELECT 10 / (tenant - 1), count(*) FROM notes GROUP BY 1 HAVING 10 / (tenant - 1) > 0	Foreign
SELECT 10 / (tenant - 1), id FROM notes ORDER BY 10 / (tenant - 1), id	Ship
SELECT max(n) FROM (SELECT max(10 / (tenant - 1)) AS n FROM notes GROUP BY tenant) s WHERE n > 0	Ship
SELECT * FROM notes WHERE id IN (SELECT note FROM lines)	Ship
SELECT id, (SELECT sum(amount) FROM lines WHERE lines.tenant = notes.tenant AND note = notes.id) FROM notes	Ship
SELECT * FROM plain_view	Ship
SELECT * FROM barrier WHERE body LIKE 'body%'	Foreign
SELECT id FROM notes UNION ALL SELECT id FROM lines	Ship
SELECT id, rank() OVER (ORDER BY id) FROM notes	Ship
SELECT * FROM parts	Ship
SELECT * FROM parts1	Scatter
SELECT * FROM notes WHERE id = 8 FOR UPDATE	Ship
UPDATE notes SET body = body || '!' WHERE id = 8 RETURNING *	Ship
UPDATE notes SET tenant = 4 WHERE id = 8 RETURNING *	Modify Foreign
UPDATE lines SET amount = amount + 1 RETURNING *	Modify Foreign
UPDATE lines SET amount = 20000 WHERE id = 3 RETURNING *	Modify Foreign
UPDATE docs SET body = '7' RETURNING *	Scatter
UPDATE docs SET tenant = 0 WHERE id = 2 RETURNING *	Modify Foreign Foreign Foreign
UPDATE notes SET body = amount FROM lines WHERE note = notes.id AND lines.tenant = notes.tenant RETURNING notes.*	Ship
INSERT INTO notes VALUES (3, 200, 'bob') RETURNING *	Modify
INSERT INTO notes VALUES (4, 200, 'bob') RETURNING *	Modify
INSERT INTO notes VALUES (3, 201, 'bob'), (4, 202, 'bob') RETURNING *	Modify
INSERT INTO lines VALUES (3, 200, 1, 20000) RETURNING *	Modify
INSERT INTO lines SELECT 3, i, 1, i FROM generate_series(1000, 1300) i	Modify
INSERT INTO lines SELECT 3, i, 1, i * 9 FROM generate_series(1000, 1300) i	Modify
INSERT INTO docs SELECT tenant, id + 300, body FROM notes RETURNING *	Modify Foreign Foreign
INSERT INTO notes VALUES (3, 3, 'bob') ON CONFLICT DO NOTHING RETURNING *	Modify
INSERT INTO notes VALUES (4, 4, 'bob') ON CONFLICT DO NOTHING RETURNING *	Modify
INSERT INTO plain_view VALUES (4, 210, 'bob') RETURNING *	Modify
INSERT INTO notes VALUES (3, 8, 'bob')	Modify
INSERT INTO members VALUES (3, 'carol')	Ship
INSERT INTO parts VALUES (4, 50) RETURNING *	Modify
INSERT INTO parts1 VALUES (4, 18) RETURNING *	Ship
DELETE FROM notes WHERE id = 3 RETURNING *	Ship
DELETE FROM notes WHERE body LIKE 'body1%' RETURNING *	Modify Foreign
DELETE FROM docs RETURNING *	Scatter
COPY notes TO stdout	
COPY notes FROM stdin	
QUERIES
{
	my ($query, $plan) = split /\t/, $line;

	for my $user (qw(alice bob))
	{
		my ($nodes, $distributed, $plain) = both($user, $query);

		is($distributed, $plain, "$user: $query");
		is($nodes, $plan // '', 'its plan') if $user eq 'alice' && $plan;
	}
}

# Nor do messages tell values of columns that the user may not read.
for my $schema ('x', 'x_plain')
{
	$c->sql(qq{SET search_path = $schema; CREATE TABLE secrets (tenant bigint PRIMARY KEY, secret text);
		INSERT INTO secrets VALUES (1, 'a'); GRANT INSERT, SELECT (secret) ON secrets TO PUBLIC});
	$c->sql(q{SELECT shardlet.distribute('x.secrets', 'm', 'tenant')}) if $schema eq 'x';
	my (undef, undef, $stderr) = $c->psql_err("SET ROLE bob; INSERT INTO $schema.secrets VALUES (1, 'b')");
	like($stderr, qr/ERROR:  23505/, "$schema: a duplicate");
	unlike($stderr, qr/DETAIL/, "$schema: and no values");
	(undef, undef, $stderr) = $c->psql_err("INSERT INTO $schema.secrets VALUES (1, 'b')");
	like($stderr, qr/DETAIL:  Key \(tenant\)=\(1\) already exists/, "$schema: the owner is told");
}

# Many rows go by COPY, after the checks.
is($c->sql(q{SET app.tenant = 3; SET ROLE alice; BEGIN; INSERT INTO x.lines SELECT 3, i, 1, i FROM generate_series(1000, 1300) i;
	SELECT count(*) FROM x.lines; ROLLBACK}), '313', 'many rows');

# Prepared statements follow the setting and the role.
is($c->sql(q{
	SET search_path = x; SET plan_cache_mode = force_generic_plan;
	PREPARE q AS SELECT min(tenant), max(tenant), count(*) FROM notes;
	EXECUTE q;
	SET ROLE alice;
	SET app.tenant = 1; EXECUTE q;
	DO $$ BEGIN PERFORM set_config('app.tenant', '2', false); END $$; EXECUTE q;
	BEGIN; SET LOCAL app.tenant = 4; EXECUTE q; SAVEPOINT s; SET LOCAL app.tenant = 0; EXECUTE q;
	ROLLBACK TO s; EXECUTE q; ROLLBACK; EXECUTE q;
	SET ROLE bob; EXECUTE q;
	RESET ROLE; EXECUTE q}),
	"0|4|40\n1|1|8\n2|2|8\n4|4|8\n0|0|8\n4|4|8\n2|2|8\n2|2|4\n0|4|40", 'prepared statements');
is($c->sqlstate('SET ROLE alice; SET row_security = off; SELECT * FROM x.notes'), '42501', 'row_security = off');
is($c->sqlstate('SET ROLE alice; SELECT * FROM x.notes'), '42704', 'the setting does not exist');

# A function of the user sees rows that the policy allows, and no others.
my (undef, undef, $notices) = $c->psql_err(q{
	CREATE FUNCTION leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS
		$$BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END$$;
	SET app.tenant = 3; SET ROLE bob; SELECT FROM x.notes WHERE leak(body) AND leak(owner)});
is(join(' ', sort $notices =~ /saw (body\d+)/g), 'body13 body23 body3 body33', 'leaky functions');

# ON CONFLICT DO UPDATE is refused, as the router does not see the old row.
is($c->sqlstate(q{SET app.tenant = 3; SET ROLE alice;
	INSERT INTO x.notes VALUES (3, 3, 'bob') ON CONFLICT (tenant, id) DO UPDATE SET body = 'new'}), '0A000', 'ON CONFLICT DO UPDATE');

# A trigger of the shards changes the row after the check: it is checked again.
my $body = q{RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.amount := NEW.amount * 100; RETURN NEW; END'};
my $trigger = q{TRIGGER raise_amount BEFORE INSERT OR UPDATE ON x.lines FOR EACH ROW EXECUTE FUNCTION x.raise_amount()};
$c->shard_sql($_, "CREATE FUNCTION x.raise_amount() $body") for 1, 2;
$c->sql("CREATE FUNCTION x.raise_amount() $body; CREATE $trigger");
$c->shard_sql($_, "CREATE OR REPLACE $trigger") for 1, 2;
for my $statement ('INSERT INTO x.lines VALUES (3, 500, 1, 200)', 'UPDATE x.lines SET amount = 200 WHERE id = 3',
	'UPDATE x.lines SET note = 1 WHERE id = 58')
{
	is($c->sqlstate("SET app.tenant = 3; SET ROLE alice; $statement"), '42501', "changed by a trigger: $statement");
}
is($c->sqlstate('SET app.tenant = 3; SET ROLE alice; INSERT INTO x.lines VALUES (3, 500, 1, 2)'), '', 'changed by a trigger');
$c->sql(q{DROP TRIGGER raise_amount ON x.lines});

# Users who connect to a shard directly are subject to the policies there.
$c->shard_sql($_, 'GRANT USAGE ON SCHEMA x TO PUBLIC') for 1, 2;
for my $pair ([ 'alice', 8 ], [ 'bob', 4 ])
{
	my ($user, $expected) = @$pair;
	my $count = 0;

	$count += $c->shard_sql($_, "SET app.tenant = 3; SET ROLE $user; SELECT count(*) FROM x.notes") for 1, 2;
	is($count, $expected, "$user, directly");
}

# The user of a connection that cannot bypass the policies gets an error, and no rows.
$c->shard_sql($_, 'GRANT ALL ON ALL TABLES IN SCHEMA x TO weak') for 1, 2;
for my $query ('SELECT * FROM x.notes', 'SELECT count(*) FROM x.docs', q{SELECT * FROM x.notes WHERE body LIKE 'b%'},
	'DELETE FROM x.notes', q{UPDATE x.notes SET body = 'w'}, q{INSERT INTO x.notes VALUES (3, 700, 'w')})
{
	is($c->sqlstate("SET app.tenant = 3; SET ROLE carol; $query"), '42501', "not bypassed: $query");
}

# So row security cannot be enabled over such a connection.
$c->shard_sql($_, q{GRANT CREATE, USAGE ON SCHEMA x TO weak}) for 1, 2;
$c->sql(q{
	GRANT CREATE ON SCHEMA x TO carol; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO carol;
	SET ROLE carol; CREATE TABLE x.own (tenant bigint PRIMARY KEY, v int); INSERT INTO x.own VALUES (1, 1), (2, 2);
	RESET ROLE; GRANT USAGE ON FOREIGN SERVER shardlet_tables TO carol});
is($c->sqlstate(q{SET ROLE carol; ALTER TABLE x.own ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
	SELECT shardlet.distribute('x.own', 'm', 'tenant')}), '42501', 'distribute() with FORCE');
$c->sql('SET ROLE carol; ALTER TABLE x.own NO FORCE ROW LEVEL SECURITY; SELECT shardlet.distribute(\'x.own\', \'m\', \'tenant\')');
is($c->sql('SET ROLE carol; SELECT count(*) FROM x.own'), '2', 'the owner bypasses');
my (undef, undef, $error) = $c->psql_err('SET ROLE carol; ALTER TABLE x.own FORCE ROW LEVEL SECURITY');
like($error, qr/42501.*HINT:  ALTER ROLE \.\.\. BYPASSRLS/s, 'FORCE');
is($c->shard_sql(1, q{SELECT relrowsecurity::text || relforcerowsecurity FROM pg_class WHERE oid = 'x.own'::regclass}),
	'truefalse', 'nothing has changed');
$c->shard_sql($_, 'ALTER ROLE weak BYPASSRLS') for 1, 2;
is($c->sql('SET ROLE carol; ALTER TABLE x.own FORCE ROW LEVEL SECURITY; SELECT count(*) FROM x.own'), '0', 'FORCE with BYPASSRLS');

# Roles of policies are created on the shards.
my $policies = q{SELECT string_agg(polname, ' ' ORDER BY polname) FROM pg_policy WHERE polrelid = 'x.roles'::regclass};
$c->sql(q{CREATE TABLE x.roles (tenant bigint PRIMARY KEY); ALTER TABLE x.roles ENABLE ROW LEVEL SECURITY;
	CREATE POLICY a ON x.roles TO carol, alice USING (true); CREATE POLICY b ON x.roles TO bob USING (true);
	SELECT shardlet.distribute('x.roles', 'm', 'tenant'); CREATE POLICY c ON x.roles TO carol USING (true)});
is($c->shard_sql(1, $policies), 'a b c', 'with the roles');
$c->sql(q{ALTER POLICY a ON x.roles TO alice; DROP POLICY c ON x.roles});
is($c->shard_sql(1, $policies), 'a b', 'and changed');

# All rows come back, whatever the policies say.
$c->sql(q{SET ROLE carol; SELECT shardlet.undistribute('x.own')});
is($c->sql('SELECT count(*) FROM x.own'), '2', 'undistribute()');
is($c->sql('SET ROLE carol; SELECT count(*) FROM x.own'), '0', 'and the policies stay');
is($c->sql(q{SELECT shardlet.undistribute('x.docs'); SELECT count(*) FROM x.docs}), "\n30", 'undistribute() of a superuser');

done_testing();
