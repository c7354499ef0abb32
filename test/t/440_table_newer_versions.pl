
# What PostgreSQL has had since 16, 17 or 18, on distributed tables: it works
# or is refused.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
my $version = int($c->sql('SHOW server_version_num') / 10000);
my $refused = '0A000';

$c->sql(q{
	SELECT shardlet.create_map('m');
	CREATE TABLE t (k bigint PRIMARY KEY, a int);
	INSERT INTO t SELECT i, i FROM generate_series(1, 9) i;
	GRANT ALL ON t TO PUBLIC;
	SELECT shardlet.distribute('t', 'm', 'k')});

# What all shards say, if it is the same.
sub there
{
	my ($sql) = @_;
	my @answers = map { $c->shard_sql($_, $sql) } 1, 2;
	return $answers[0] eq $answers[1] ? $answers[0] : "different: @answers";
}

# With all columns as identity, a publication without the generated ones makes updates
# of the application fail since 18.
$c->sql(q{
	SELECT shardlet.create_map('moving', shardlets => 1);
	CREATE TABLE whole (k bigint NOT NULL, a int, g int GENERATED ALWAYS AS (a * 2) STORED);
	SELECT shardlet.distribute('whole', 'moving', 'k');
	ALTER TABLE whole REPLICA IDENTITY FULL;
	INSERT INTO whole SELECT i, i FROM generate_series(1, 9) i});
my ($shardlet, $to) = split /\|/, $c->sql(q{SELECT shardlet, CASE shard WHEN 's1' THEN 's2' ELSE 's1' END FROM shardlet.shardlets WHERE map = 'moving'});
is($c->sqlstate("CALL shardlet.move_shardlet($shardlet, '$to')"), $version < 18 ? '' : $refused, 'a generated column in the replica identity');
is($c->sql('UPDATE whole SET a = a + 1; SELECT sum(g) FROM whole'), 108, 'does not keep rows from being changed');

SKIP:
{
	skip 'from 16 on', 7 if $version < 16;
	like($c->sql('EXPLAIN (GENERIC_PLAN) SELECT * FROM t WHERE k = $1'), qr/chosen at run time/, 'a plan without values');
	is($c->sql(q{SELECT k, any_value(a) FROM t WHERE k < 3 GROUP BY k ORDER BY k}), "1|1\n2|2", 'any_value');
	like($c->sql("EXPLAIN (COSTS OFF) SELECT $_ FROM t"), qr/^Finalize Aggregate\n.*Shardlet Scatter/, "$_ in two steps")
		for 'any_value(a)';
	# Their states are not sent: reading one trusts lengths in it.
	unlike($c->sql("EXPLAIN (COSTS OFF) SELECT $_ FROM t"), qr/Finalize/, "$_ of values")
		for q{string_agg(a::text, ',')}, q{string_agg(int4send(a), NULL)}, 'array_agg(a)', 'array_agg(ARRAY[a, 1])';
}

SKIP:
{
	skip 'from 17 on', 7 if $version < 17;
	is($c->sqlstate(q{MERGE INTO t USING (SELECT 1) s ON true WHEN NOT MATCHED BY SOURCE THEN DELETE}), $refused, 'MERGE');
	is($c->sql(q{SELECT k FROM t WHERE JSON_VALUE(jsonb_build_object('a', a), '$.a' RETURNING int) = 3 AND now() AT LOCAL > '2000-01-01'}), 3, 'JSON_VALUE, AT LOCAL');
	is($c->sql(qq{COPY t FROM stdin (ON_ERROR ignore);\n101\t1\nx\t2\n102\ty\n103\t3\n\\.\nSELECT string_agg(k::text, ' ' ORDER BY k) FROM t WHERE k > 100}), '101 103', 'COPY leaves bad lines out');
	is(there(q{SELECT has_table_privilege('pg_monitor', 't', 'MAINTAIN')}), 't', 'the privilege to maintain');
	$c->sql(q{
		CREATE TABLE made (a bigint NOT NULL, k bigint GENERATED ALWAYS AS (a * 2) STORED NOT NULL, b int GENERATED ALWAYS AS (a + 1) STORED);
		SELECT shardlet.distribute('made', 'm', 'k');
		INSERT INTO made (a) VALUES (1), (2), (3)});
	is($c->sqlstate('ALTER TABLE made ALTER k SET EXPRESSION AS (a * 3)'), $refused, 'the expression of the key stays');
	$c->sql('ALTER TABLE made ALTER b SET EXPRESSION AS (a + 5)');
	is($c->sql('SELECT sum(b) FROM made'), 21, 'another expression');
	is($c->sql('SELECT count(*) FROM t WHERE k IS NULL'), 0, 'the key is never NULL');
}

SKIP:
{
	skip 'from 18 on', 24 if $version < 18;

	# RETURNING.
	$c->sql('ALTER TABLE t ADD COLUMN g int GENERATED ALWAYS AS (a * 2)');
	is($c->sql('UPDATE t SET a = a + 10 WHERE k = 1 RETURNING old.a, new.a, old.g, new.g, g'), '1|11|2|22|22', 'UPDATE returns OLD');
	is($c->sql('UPDATE t SET k = k + 50 WHERE k = 1 RETURNING old.k, new.k, old.g'), '1|51|22', 'of a row that moves, too');
	is($c->sql('INSERT INTO t (k, a) VALUES (200, 1) RETURNING old.k, new.g'), '|2', 'INSERT has none');
	is($c->sql('DELETE FROM t WHERE k = 200 RETURNING old.g, new.g'), '2|', 'DELETE has it');
	is($c->sqlstate('SET shardlet.ship = off; INSERT INTO t (k, a) VALUES (2, 1) ON CONFLICT (k) DO UPDATE SET a = 5 RETURNING old.a'), $refused, 'ON CONFLICT cannot tell');
	is($c->sql('INSERT INTO t (k, a) VALUES (2, 1) ON CONFLICT (k) DO UPDATE SET a = t.a + 1 RETURNING old.a, new.a'), '2|3', 'but the shard that gets all of it');
	is($c->sql('UPDATE t SET a = 2 WHERE k = 2 RETURNING old.a, new.a'), '3|2', 'and UPDATE');
	is($c->sql('INSERT INTO t (k, a) VALUES (2, 1) ON CONFLICT (k) DO UPDATE SET a = t.g + excluded.g RETURNING new.a, g'), '6|12', 'but what is new');

	# Virtual columns.
	is($c->sql('SELECT k, g FROM t WHERE g = 12 ORDER BY k'), "2|12\n6|12", 'a virtual column');
	is($c->sql('ANALYZE t; SELECT (t).g FROM t WHERE k = 3'), 6, 'of a whole row');
	is($c->sqlstate(q{CREATE TABLE v (a bigint NOT NULL, k bigint GENERATED ALWAYS AS (a) NOT NULL); SELECT shardlet.distribute('v', 'm', 'k')}), $refused, 'is no key');
	$c->sql('ALTER TABLE t ALTER g SET EXPRESSION AS (a * 3)');
	is($c->sql('SELECT g FROM t WHERE k = 3'), 9, 'with another expression');

	# NOT NULL has a name.
	my $names = q{SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'n'::regclass AND contype = 'n'};
	$c->sql(q{
		CREATE TABLE n (k bigint CONSTRAINT n_k NOT NULL, a int CONSTRAINT n_a NOT NULL, b int NOT NULL);
		SELECT shardlet.distribute('n', 'm', 'k')});
	is(there($names), 'n_a n_b_not_null n_k', 'shards know the names');
	$c->sql(q{
		ALTER TABLE n DROP CONSTRAINT n_a, ADD CONSTRAINT n_c NOT NULL a NOT VALID;
		ALTER TABLE n VALIDATE CONSTRAINT n_c;
		ALTER TABLE n RENAME CONSTRAINT n_c TO n_d});
	is(there($names), 'n_b_not_null n_d n_k', 'and take part in changes');
	is($c->sql($names), 'n_b_not_null n_d n_k', 'as the router does');
	is($c->sqlstate('ALTER TABLE n DROP CONSTRAINT n_k'), $refused, 'that of the key stays');
	$c->sql(q{SELECT shardlet.execute('m', 'CREATE TABLE o (k bigint PRIMARY KEY, a int CONSTRAINT o_a NOT NULL)'); SELECT shardlet.attach('o', 'm', 'k'); ALTER TABLE o DROP CONSTRAINT o_a});
	is($c->sql('INSERT INTO o VALUES (1, NULL); SELECT count(*) FROM o WHERE a IS NULL'), 1, 'those of attached tables are known');

	# Constraints that are not enforced, and those of periods.
	$c->sql(q{CREATE TABLE r (id int PRIMARY KEY); SELECT shardlet.make_reference('r'); ALTER TABLE t ADD COLUMN r int REFERENCES r NOT ENFORCED});
	is($c->sqlstate('UPDATE t SET r = 7 WHERE k = 3'), '', 'a foreign key that is not enforced');
	$c->sql(q{
		SELECT shardlet.create_map('spans', key_types => '{int4range}');
		CREATE TABLE p (k int4range, during int4range, PRIMARY KEY (k, during WITHOUT OVERLAPS));
		CREATE TABLE q (j int4range, k int4range NOT NULL, UNIQUE (j, k WITHOUT OVERLAPS));
		SELECT shardlet.distribute('p', 'spans', 'k');
		INSERT INTO p VALUES ('[1,2)', '[1,9)'), ('[1,2)', '[9,10)'), ('[2,3)', '[1,9)')});
	is($c->sqlstate(q{INSERT INTO p VALUES ('[1,2)', '[5,6)')}), '23P01', 'a key of periods');
	is($c->sqlstate(q{SELECT shardlet.distribute('q', 'spans', 'k')}), $refused, 'whose period cannot be the key');
	$c->sql(q{ALTER TABLE q DROP CONSTRAINT q_j_k_key; SELECT shardlet.distribute('q', 'spans', 'k')});
	is($c->sqlstate('ALTER TABLE q ADD UNIQUE (j, k WITHOUT OVERLAPS)'), $refused, 'nor become one');
	is($c->sqlstate('ALTER TABLE q ADD UNIQUE (k, j WITHOUT OVERLAPS)'), '', 'while another can');

	# And back.
	is($c->sql(q{SELECT shardlet.undistribute('t'); SELECT relkind, relallfrozen FROM pg_class WHERE oid = 't'::regclass}), "\nr|0", 'a plain table again');
	is($c->sql('SELECT g FROM t WHERE k = 3'), 9, 'with its virtual column');
}

done_testing();
