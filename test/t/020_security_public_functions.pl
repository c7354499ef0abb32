
# Functions that everyone may execute: docs/internals.md has a reason for each, and none of them can be
# misused.  A role without any grant calls them on the router and on a shard with arguments of any type, NULLs,
# OIDs of other things and huge values, in any order, in transactions and savepoints, as aggregates, window
# functions and triggers.  The server answers or refuses; it does not crash.
#
#	PUBLIC_FUZZ_SEED=n PUBLIC_FUZZ_STATEMENTS=n    other statements than those by default, and more of them

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $seed = $ENV{PUBLIC_FUZZ_SEED} // 1;
my $statements = $ENV{PUBLIC_FUZZ_STATEMENTS} // 400;
my $c = ShardletCluster->new(shards => 1, router_conf => "log_statement = none\nlog_error_verbosity = verbose\n",
	shard_conf => "log_statement = none\nlog_error_verbosity = verbose\n");
$c->sql(q{
	SELECT shardlet.create_map('m', shardlets => 2), shardlet.create_map('l', 'list', '{text}'), shardlet.create_map('p', 'spread');
	SELECT shardlet.assign_key('l', 's1', 'a');
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i});
my %nodes = (router => $c->router, shard => $c->shard(1));

### The list

my $public = q{SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'shardlet'
	WHERE EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') ORDER BY p.oid::regprocedure::text COLLATE "C"};
my $reasons = slurp_file('docs/internals.md');
$reasons =~ s/\A.*^## Functions that everyone may execute\n//ms or die 'docs/internals.md has no list of functions';
$reasons =~ s/^## .*//ms;
my %listed = map { $_ => 1 } $reasons =~ /^\| `([^`]+)` \| \S/mg;
my @functions;
for my $name (sort keys %nodes)
{
	@functions = split /\n/, $nodes{$name}->safe_psql('app', "SET search_path = pg_catalog; $public");
	my %there = map { $_ => 1 } @functions;
	is_deeply([ grep { !$listed{$_} } @functions ], [], "$name: everything that PUBLIC may execute has a reason in docs/internals.md");
	is_deeply([ grep { !$there{$_} } sort keys %listed ], [], "$name: and nothing else is there");
}

### The statements

srand($seed);
sub pick { return $_[int rand @_] }

my %right = (
	name => [ "'m'", "'l'", "'p'", "'none'", "''", "repeat('x', 100)" ], text => [ "''", "'x'", "repeat('x', 100000)", q{E'\\u0101'} ],
	bigint => [ 0, 1, -1, '9223372036854775807', '(-9223372036854775808)' ], integer => [ 0, 1, '2147483647' ], smallint => [ '1::int2', '(-32768)::int2' ],
	numeric => [ 1.5, "'NaN'::numeric", "'infinity'::numeric", '1e100000' ], real => ["'NaN'::real"], 'double precision' => [ '1.5::float8', "'-infinity'::float8" ],
	interval => [ "interval '1 s'", "interval '-178000000 years'" ],
	'name[]' => [ "'{m}'::name[]", "'{}'::name[]", "ARRAY[NULL]::name[]" ],
	'text[]' => [ "'{}'::text[]", "'{a,b,c}'::text[]", "ARRAY[NULL,'a','b','true']", "array_fill('x'::text, ARRAY[10000])", "'{{a,b},{c,d}}'::text[]",
		"array_prepend(repeat('a', 64), '{public, t, true}')" ],
	'bigint[]' => [ "'{}'::bigint[]", "'{1,2,3}'::bigint[]", "ARRAY[NULL]::bigint[]", "array_fill(7::bigint, ARRAY[30000])", "(SELECT array_agg(i) FROM generate_series(1::bigint, 30000) i)" ],
	regclass => [ "'t'::regclass", "'mine'::regclass", '0::regclass', '4294967295::regclass', "'pg_class'::regclass", "'shardlet.catalog_map'::regclass", "'mine_pkey'::regclass" ],
	anyarray => [ "'{1,2}'::int[]", "'{a}'::text[]", "'{}'::point[]", "ARRAY[ROW(1)]" ]);
my @any = (
	'NULL', "'x'", 1, '1.5', 'true', "'1'::bytea", "'\\x00ff'::bytea", "repeat('ab', 50000)::bytea", "'{1,2,3}'::int[]", "ARRAY[NULL]::text[]", 'ROW(1, 2)', "ROW()", "'{\"a\": 1}'::jsonb",
	"'t'::regclass", "'now()'::regprocedure", '12345::oid', '0::oid', "'2024-01-01'::date", "'infinity'::timestamptz", "interval '1 day'", "'1.2.3.4'::inet", "'(1,2)'::point",
	"int8range(1, 5)", "'a b'::tsvector", "NULL::bigint", "NULL::text[]", "NULL::internal", 'i', 'i::bigint', 'i::numeric', "(SELECT m FROM mine m LIMIT 1)", "'x'::mood", "3::small", "'\"C\"'::regcollation",
	"'\"char\"'::regtype", "gen_random_uuid()", "'a'::\"char\"", "B'101'", 'pg_backend_pid()', 'random()', "'1'::xid", "'0/1'::pg_lsn", "'int'::regtype");
my @aggregates = split /\n/, $c->sql('SELECT quote_literal(aggfnoid::regprocedure::text) FROM pg_aggregate ORDER BY aggfnoid');
my @states = qw(bytea bigint numeric float8[] int8[] text int bool interval float8 anyarray record mine);

# Arguments of a function: of the types that it declares, or of any.
sub arguments
{
	my ($types, $honest) = @_;
	my @arguments;

	for my $type (split /,(?![^(]*\))/, $types)
	{
		if ($type =~ /any"$/)
		{
			push @arguments, map { pick(@any) } 1 .. pick(0, 1, 1, 1, 2, 3, 40);
		}
		else
		{
			push @arguments, rand() < $honest && $right{$type} ? pick(@{ $right{$type} }) : rand() < 0.5 ? 'NULL' : pick(@any);
		}
	}
	return join ', ', @arguments;
}

sub state_of
{
	my $aggregate = pick(@aggregates);
	my ($types) = $aggregate =~ /\((.*)\)'$/;
	my @arguments = map { my $type = $_; $type =~ /any|internal|VARIADIC|ORDER BY/ ? pick(@any) : rand() < 0.8 ? pick("NULL::$type", "i::text::$type", pick(@any)) : pick(@any) } grep { $_ ne '' } split /,/, $types;
	my $name = rand() < 0.1 ? pick("CASE WHEN i = 1 THEN ${aggregate}::regprocedure ELSE " . pick(@aggregates) . '::regprocedure END', 'NULL', '12345', "'now()'::regprocedure", '(i + 2100)::regprocedure') : "${aggregate}::regprocedure";

	return 'shardlet_internal.state_of(' . join(', ', 'NULL::' . pick(@states), $name, @arguments) . ')';
}

sub call
{
	my $function = pick(@functions);
	my ($name, $types) = $function =~ /^([^(]+)\((.*)\)$/;

	return state_of() if $name =~ /state_of/ || rand() < 0.15;
	return "$name(" . pick('', '', '', 'DISTINCT ', 'VARIADIC ') . arguments($types, pick(0, 0.7, 1, 1)) . ')';
}

sub statement
{
	my $choice = int rand 14;
	my $call = call();
	my $from = 'FROM generate_series(1, ' . pick(0, 1, 3, 3, 200) . ') i';

	return "SELECT $call $from" if $choice <= 5;
	return "SELECT i % 2, $call, " . call() . " $from GROUP BY i % 2" if $choice == 6;
	return "SELECT $call OVER (" . pick('', 'ORDER BY i', 'PARTITION BY i % 2 ORDER BY i ROWS 1 PRECEDING') . ") $from" if $choice == 7;
	return "SELECT * FROM $call" if $choice == 8;
	return "DO \$d\$ BEGIN PERFORM $call $from; EXCEPTION WHEN OTHERS THEN PERFORM " . call() . " $from; END \$d\$" if $choice == 9;
	return pick('BEGIN', 'COMMIT', 'ROLLBACK', 'SAVEPOINT s', 'ROLLBACK TO s', 'RELEASE s', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SET TRANSACTION READ ONLY', 'DISCARD ALL',
		'SELECT count(*), sum(v) FROM t', 'DECLARE x CURSOR FOR SELECT * FROM mine', 'FETCH 2 FROM x', 'SHOW search_path', 'PREPARE TRANSACTION \'x\'') if $choice == 10;
	return "PREPARE p AS SELECT $call $from; EXECUTE p; EXECUTE p; DEALLOCATE p" if $choice == 11;
	if ($choice == 12)
	{
		my $function = pick(grep { !/state_of/ } @functions);
		$function =~ s/\(.*//;
		return 'CREATE OR REPLACE TRIGGER x ' . pick('BEFORE', 'AFTER', 'AFTER') . ' ' . pick('INSERT', 'UPDATE OF v', 'DELETE', 'INSERT OR UPDATE OR DELETE', 'TRUNCATE') . ' ON ' . pick('mine', 'mine', 'parts')
			. ' FOR EACH ' . pick('ROW', 'ROW', 'STATEMENT') . " EXECUTE FUNCTION " . pick('shardlet_internal.guard', 'shardlet_internal.guard', 'shardlet_internal.guard_reference', $function)
			. '(' . join(', ', map { pick("'m'", "'l'", "'p'", "'k'", "'v'", "'none'", "'ctid'", "''") } 1 .. pick(0, 1, 2, 2, 3, 9)) . '); '
			. pick("INSERT INTO mine VALUES (1, 2, 'x'), (NULL, 3)", 'UPDATE mine SET v = v + 1', 'DELETE FROM mine', 'TRUNCATE mine', 'INSERT INTO parts VALUES (1, 2)', 'UPDATE parts SET k = 3 - k', 'TRUNCATE parts');
	}
	return 'CREATE OR REPLACE AGGREGATE own(' . pick('int', 'bigint', '"any"') . ') (SFUNC = ' . pick('shardlet_internal.count_keys_step', 'shardlet_internal.state_step', 'shardlet_internal.plain_sum_step', 'shardlet.token', 'int8inc_any')
		. ', STYPE = ' . pick('internal', 'bigint', 'numeric', 'bytea') . ')' . "; SELECT own(i) $from; SELECT shardlet_internal.state_of(NULL::bigint, 'own(int)'::regprocedure, i) $from";
}

for my $name (sort keys %nodes)
{
	my $node = $nodes{$name};
	$node->safe_psql('app', q{CREATE ROLE nobody; GRANT CREATE, USAGE ON SCHEMA public TO nobody});
	$node->safe_psql('app', q{SET ROLE nobody; CREATE TABLE mine (k bigint PRIMARY KEY DEFERRABLE, v int, w text); CREATE TYPE mood AS ENUM ('x'); CREATE DOMAIN small AS int CHECK (VALUE < 10);
		INSERT INTO mine SELECT i, i FROM generate_series(1, 10) i; CREATE TABLE parts (k int, v int) PARTITION BY LIST (k); CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2)});
	my $mark = $c->log_mark($node);
	my $done = 0;

	while ($done < $statements)
	{
		my @list = map { statement() } 1 .. 40;
		my ($stdout, $stderr) = ('', '');
		$node->psql('app', join('', map { "$_;\n" } 'SET ROLE nobody', "SET statement_timeout = '5s'", @list, 'ROLLBACK', "SELECT 'alive'"),
			on_error_stop => 0, stdout => \$stdout, stderr => \$stderr);
		$done += @list;
		next if $stdout =~ /alive\s*\z/;
		fail("$name: session lost, seed $seed");
		diag join "\n", @list, $stderr;
		last;
	}
	my $log = $c->log_since($node, $mark);
	is($node->safe_psql('app', 'SELECT 1'), '1', "$name: the server is there after $done statements");
	unlike($log, qr/TRAP:|PANIC:|terminated by signal|runtime error/, "$name: nothing has crashed");
	unlike($log, qr/ERROR:  XX000/, "$name: no internal error");
	is($node->safe_psql('app', q{SELECT count(*) FROM pg_class WHERE relowner = 'nobody'::regrole AND relname NOT IN ('mine', 'mine_pkey', 'parts', 'part1', 'part2') AND relkind = 'r'}), '0', "$name: nothing else was made");
}

done_testing();
