
# A shard, or something between, that does not keep to the protocol: whatever comes
# in place of one message, a statement gives its result or an error, never other rows
# or fewer, the router's server stays up, and the session goes on.
#
# Each kind of statement is run once as it is, to see which messages it is answered
# with; then again and again with one of them altered.  SL_LONG tries every
# alteration of every message; otherwise the choice is made by chance, with a seed
# that is told (SL_PROTOCOL_SEED).

use strict;
use warnings;

use FuzzingProxy;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);
use WireClient;

my $seed = $ENV{SL_PROTOCOL_SEED} // time;
my $cases = $ENV{SL_PROTOCOL_CASES} // 8;
my $is_long = $ENV{SL_LONG};
srand $seed;
note "seed $seed";

my $c = ShardletCluster->new(shards => 2, add => 0, router_conf => q{
shardlet.connect_timeout = '3s'
log_min_messages = warning
log_statement = none
}, shard_conf => 'log_statement = none');
my $proxy = FuzzingProxy->new(host => '127.0.0.1', port => $c->shard(1)->port);
$c->sql('CREATE EXTENSION shardlet');
$c->sql(q{SELECT shardlet.add_shard('s1', 'host=127.0.0.1 port=} . $proxy->port . q{ dbname=app')});
$c->sql(q{SELECT shardlet.add_shard('s2', '} . $c->conninfo(2) . q{')});
$c->sql(q{
SELECT shardlet.create_map('m', kind => 'range');
SELECT shardlet.assign_range('m', 's1', NULL, 100), shardlet.assign_range('m', 's2', 100, NULL);
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE t (id bigint PRIMARY KEY, v bigint NOT NULL, name text, ok bool, day date, at timestamptz, amount numeric, doc json, list int[]);
CREATE TABLE e (id bigint PRIMARY KEY, name text, mood mood);
CREATE TABLE w (id bigint PRIMARY KEY, v bigint NOT NULL);
SELECT shardlet.distribute('t', 'm', 'id'), shardlet.distribute('e', 'm', 'id'), shardlet.distribute('w', 'm', 'id');
INSERT INTO t SELECT g, g * 7, 'row ' || g, g % 2 = 0, date '2024-01-01' + g::int, timestamptz '2024-01-01 UTC' + g * interval '1 hour', g / 8.0, '{"a": 1}', ARRAY[g, 1] FROM generate_series(96, 104) g;
INSERT INTO e SELECT g, 'row ' || g, 'glad' FROM generate_series(98, 101) g;
INSERT INTO w SELECT g, 0 FROM generate_series(98, 101) g;
});
$c->shard_sql(1, q{CREATE FUNCTION tell(bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''row %'', $1; RETURN $1; END'});
$c->shard_sql(2, q{CREATE FUNCTION tell(bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'});

# A shard that says nothing any more is given up by the statement's time-out; one that
# says nothing while it prepares to commit, when the statement is cancelled.
my @settings = (q{SET statement_timeout = '2500ms'}, q{SET client_min_messages = warning});
my $session = WireClient->new($c->router, 'app', settings => \@settings, timeout => 40);
my @direct = map { WireClient->new($c->shard($_), 'app') } 1, 2;
my $started = $c->sql('SELECT pg_postmaster_start_time()');

# Cancels the statement that the session left behind.  Returns 'cancelled', or
# 'timeout' if that has no effect.
sub end_session
{
	my $left = q{FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = 'app' AND state <> 'idle' AND pid <> pg_backend_pid()};

	$session->close;
	for (1 .. 100)
	{
		return 'cancelled' if $c->sql("SELECT count(pg_cancel_backend(pid)) $left") eq '0';
		sleep 0.2;
	}
	return 'timeout';
}

# What came of one or several statements: rows as one string, or the SQLSTATE.
sub run
{
	my ($sql, $copy) = @_;
	my @result = $session->simple($sql, $copy);
	my ($failed) = grep { $_->{error} } @result;

	return (undef, end_session()) if $failed && $failed->{error}{C} eq 'timeout';
	$session->simple('ROLLBACK') if $session->state ne 'I';
	return (undef, $failed->{error}{C}) if $failed;
	return join ';', map { join ',', map { $_ // 'NULL' } @$_ } map { @{ $_->{rows} } } @result;
}

# What is on the shards, past the proxy, once nothing is left prepared there.
sub on_shards
{
	my ($sql) = @_;
	for (1 .. 100)
	{
		my @left = map { ($_->simple('SELECT count(*) FROM pg_prepared_xacts'))[0]{rows}[0][0] } @direct;
		last if !grep { $_ } @left;
		$c->psql_err('SELECT shardlet.recover()');
	}
	return join ' ', map { my ($r) = $_->simple($sql); join ',', map { @$_ } @{ $r->{rows} } } @direct;
}

# A name that no statement before had, so that it is prepared and described.
my $number = 0;

my @reads = (
	[ 'one shard', 'SELECT *, 1 AS %s FROM t WHERE id = 97' ],
	[ 'all shards', 'SELECT *, 1 AS %s FROM t ORDER BY id' ],
	[ 'aggregate', 'SELECT count(*), sum(v), avg(amount), max(name) AS %s FROM t' ],
	[ 'join on the router', 'SELECT a.id, b.name AS %s FROM t a JOIN t b ON b.v = a.id * 7 ORDER BY 1' ],
	[ 'text form', 'SELECT *, 1 AS %s FROM e ORDER BY id' ],
	[ 'query()', q{SELECT * FROM shardlet.query('m', 'SELECT id, name, 1 AS %s FROM t ORDER BY id') AS q(id bigint, name text, x int)} ],
	[ 'notices', q{SELECT count(*), sum(id) AS %s FROM shardlet.query('m', 'SELECT tell(id) FROM t') AS q(id bigint)} ],
	[ 'cursor', 'BEGIN; DECLARE x CURSOR FOR SELECT *, 1 AS %s FROM t ORDER BY id; FETCH 7 FROM x; CLOSE x; COMMIT' ],
	[ 'error', 'SELECT v / (id - 97) AS %s FROM t' ],
);

# Each adds one to every row that it changes, or is undone.
my @writes = (
	[ 'update', 'UPDATE w SET v = v + 1 WHERE id = 98' ],
	[ 'update returning', 'UPDATE w SET v = v + 1 WHERE id = 98 RETURNING v * 0, 5 AS %s' ],
	[ 'update of two shards', 'UPDATE w SET v = v + 1' ],
	[ 'transaction', 'BEGIN; UPDATE w SET v = v + 1 WHERE id = 98; SELECT count(*) AS %s FROM w; UPDATE w SET v = v + 1 WHERE id = 101; COMMIT' ],
	[ 'row by row', 'UPDATE w SET v = w.v + 1 FROM (SELECT id, random() FROM t) x WHERE w.id = x.id AND w.id < 1000' ],
	[ 'upsert', 'INSERT INTO w VALUES (98, 1), (101, 1) ON CONFLICT (id) DO UPDATE SET v = w.v + 1' ],
	[ 'copy', 'BEGIN; DELETE FROM w WHERE id < 0; COPY w (id, v) FROM STDIN; UPDATE w SET v = v + 1 WHERE id = 98; DELETE FROM w WHERE id < 0; COMMIT', "-1\t1\n-2\t2\n" ],
);

my $state_sql = 'SELECT v FROM w ORDER BY id';

# The shard's connection is open and idle, and the server is up.
sub prepare_case
{
	my ($name) = @_;

	$proxy->normal;
	for (1 .. 10)
	{
		my ($rows, $code) = run('SELECT count(*) FROM w');
		return 1 if defined $rows && $rows eq '4';
	}
	return fail("$name: the session goes on");
}

sub make_sql
{
	my ($sql) = @_;
	$number++;
	return sprintf $sql, "x$number" if $sql =~ /%s/;
	return $sql;
}

# Which messages answer the statement?
sub messages_of
{
	my ($kind) = @_;
	my (undef, $sql, $copy) = @$kind;

	prepare_case($kind->[0]);
	$proxy->normal;
	my ($rows, $code) = run(make_sql($sql), $copy);
	my $types = $proxy->types;
	return ($rows // $code, $types);
}

# All places for an alteration: [type, which one of it, name].
sub places
{
	my ($types) = @_;
	my (%seen, @place);

	for my $type (split //, $types)
	{
		my $nth = ++$seen{$type};
		push @place, map { [ $type, $nth, $_ ] } FuzzingProxy::alterations($type);
	}
	return @place;
}

# Those after which nothing comes any more take until the time-out, and longer:
# a few of them are enough.
my $slow_left = $is_long ? 1_000_000 : 2;

sub choose
{
	my (@place) = @_;
	my @chosen;

	return @place if $is_long;
	while (@place && @chosen < $cases)
	{
		my ($place) = splice @place, rand @place, 1;
		next if "@$place" =~ /length_(?:more|huge)|type_[HGWK]|Z \d+ (?:drop|cut|type)|cut_|no_end|S \d+|[EG] \d+ (?:drop|type)/ && $slow_left-- <= 0;
		push @chosen, $place;
	}
	return @chosen;
}

my ($count, $struck) = (0, 0);

sub read_case
{
	my ($kind, $expected, $type, $nth, $alteration) = @_;
	my ($name, $sql) = @$kind;
	my $label = "$name: $alteration of $type $nth";

	prepare_case($label) or return 0;
	$proxy->rule($alteration => 'server', type => $type, nth => $nth);
	my ($rows, $code) = run(make_sql($sql));
	my %seen = $proxy->counts;
	$struck += $seen{struck};
	$count++;
	$proxy->normal;
	if (defined $rows ? $rows ne $expected : $code =~ /^(?:lost|timeout|XX)/)
	{
		fail("$label: " . ($rows // $code));
		return 0;
	}

	# And once more, as it is; what came too late may still be in the way once, and a
	# machine under load needs its time.
	for (1 .. 5)
	{
		($rows, $code) = run(make_sql($sql));
		return 1 if ($rows // $code) eq $expected;
	}
	return fail("$label, afterwards: " . ($rows // $code));
}

sub write_case
{
	my ($kind, undef, $type, $nth, $alteration) = @_;
	my ($name, $sql, $copy) = @$kind;
	my $label = "$name: $alteration of $type $nth";

	prepare_case($label) or return 0;
	my $before = on_shards($state_sql);
	$proxy->rule($alteration => 'server', type => $type, nth => $nth);
	my ($rows, $code) = run(make_sql($sql), $copy);
	my %seen = $proxy->counts;
	$struck += $seen{struck};
	$count++;
	$proxy->normal;
	if (!defined $rows && $code =~ /^(?:lost|timeout|XX)/)
	{
		fail("$label: $code");
		return 0;
	}
	my $after = on_shards($state_sql);
	my $changed = $after ne $before;

	# All of it or nothing; and the session is told which, unless that cannot be determined.
	my @was = split /[ ,]/, $before;
	my @is = split /[ ,]/, $after;
	my @step = map { $is[$_] - $was[$_] } 0 .. 3;
	my %wanted = (
		'update' => '1 0 0 0', 'update returning' => '1 0 0 0', 'transaction' => '1 0 0 1', 'upsert' => '1 0 0 1',
		'copy' => '1 0 0 0'
	);
	my $step = join ' ', @step;
	my $wanted = $wanted{$name} // '1 1 1 1';
	return fail("$label: changed by $step") if $step ne '0 0 0 0' && $step ne $wanted;
	return fail("$label: success, and nothing changed") if defined $rows && !$changed;
	return fail("$label: error $code, and it has happened") if !defined $rows && $changed && $code !~ /^(?:08007|cancelled)$/;
	return 1;
}

sub run_kinds
{
	my ($run, @kind) = @_;

	for my $kind (@kind)
	{
		my ($expected, $types) = messages_of($kind);
		note "$kind->[0]: $types";
		my $good = 1;
		for my $place (choose(places($types)))
		{
			$run->($kind, $expected, @$place) or $good = 0;
			last if $c->sqlstate('SELECT 1') ne '';
		}
		ok($good, $kind->[0]);
	}
	return;
}

run_kinds(\&read_case, @reads);
run_kinds(\&write_case, @writes);

# While it connects, too.
my $connects = 1;
for my $place (choose(places('RSKZTCDCZCZ')))
{
	my ($type, $nth, $alteration) = @$place;
	$session->close;
	$proxy->rule($alteration => 'server', type => $type, nth => $nth);
	my ($rows, $code) = run('SELECT count(*) FROM t');
	$proxy->normal;
	$count++;
	next if defined $rows ? $rows eq '9' : $code !~ /^(?:lost|timeout|XX)/;
	$connects = 0;
	diag("connecting: $alteration of $type $nth: " . ($rows // $code));
}
ok($connects, 'connecting');
ok($struck > $count / 2, "$struck of $count alterations struck");

# Errors say which shard it was, and the connection is not used again.
sub violates
{
	my ($name, $alteration, $type, $nth, $sql, $code, $message) = @_;
	prepare_case($name);
	my ($before) = map { $_->{rows}[0][0] } $session->simple(q{SELECT pid FROM shardlet.query('m', 'SELECT pg_backend_pid()', shards => '{s1}') AS q(pid int)});
	$proxy->rule($alteration => 'server', type => $type, nth => $nth);
	my ($result) = grep { $_->{error} } $session->simple(make_sql($sql));
	$proxy->normal;
	is($result ? $result->{error}{C} : 'none', $code, "$name: SQLSTATE");
	like(join('|', map { $_ // '' } @{ $result->{error} // {} }{qw(M D W)}), $message, "$name: message");
	my ($after) = map { $_->{rows}[0][0] } $session->simple(q{SELECT pid FROM shardlet.query('m', 'SELECT pg_backend_pid()', shards => '{s1}') AS q(pid int)});
	isnt($after, $before, "$name: another connection");
	return;
}
violates('a ReadyForQuery too many', 'ready', 'D', 1, 'SELECT *, 1 AS %s FROM t', '08P01', qr/by shard "s1"/);
violates('a RowDescription too many', 'double', 'T', 2, 'SELECT id AS %s FROM w WHERE id = 98', '08P01', qr/by shard "s1"/);
violates('a row that is missing', 'drop', 'D', 1, 'SELECT *, 1 AS %s FROM t', '08P01', qr/number of rows/);
violates('a short integer', 'D_value_short', 'D', 1, 'SELECT id AS %s FROM w WHERE id = 98', '08P01', qr/wrong length/);
violates('text that is not valid', 'D_text_bad', 'D', 1, 'SELECT name AS %s FROM t WHERE id = 97', '08P01', qr/not valid in the encoding/);
violates('text with a zero byte', 'D_text_zero', 'D', 1, 'SELECT name AS %s FROM t WHERE id = 97', '08P01', qr/not valid in the encoding/);
violates('text of an enum row', 'D_text_bad', 'D', 1, 'SELECT name, mood AS %s FROM e WHERE id = 98', '08P01', qr/not valid in the encoding/);

# A write that is committed with its statement has happened when its rows are read.
run('UPDATE w SET v = v + 0 WHERE id = 98');
violates('a short integer of a committed row', 'D_value_short', 'D', 1, 'UPDATE w SET v = v + 0 WHERE id = 98 RETURNING v, 1 AS %s', '08007', qr/may have committed.*wrong length/);
violates('a receive function', 'D_value_long', 'D', 1, 'SELECT ARRAY[v]::bigint[], id AS %s FROM w WHERE id = 98', '08P01', qr/"s1"/);

# What a shard can make the router keep, log and wait for.
my $mark = $c->log_mark($c->router);
sub memory_of
{
	my ($pid) = map { $_->{rows}[0][0] } $session->simple('SELECT pg_backend_pid()');
	open my $file, '<', "/proc/$pid/status" or die "$pid: $!";
	my ($peak) = map { /^VmHWM:\s+(\d+)/ ? $1 : () } <$file>;
	return $peak / 1024;
}
prepare_case('a huge error');
my $before = memory_of();
$proxy->rule(huge_error => 'server', type => 'C');
my ($result) = grep { $_->{error} } $session->simple('SELECT count(*) FROM t WHERE id < 99');
$proxy->normal;
is($result->{error}{C}, '22012', 'a huge error arrives');
cmp_ok(length $result->{error}{M}, '<', 100_000, 'clipped');
cmp_ok(memory_of() - $before, '<', 300, 'without much memory');

for my $flood (qw(flood_notice flood_warning flood_settings flood_notify))
{
	prepare_case($flood);
	$proxy->rule($flood => 'server', type => 'C');
	my ($rows, $code) = run('SELECT count(*) FROM t WHERE id < 99');
	$proxy->normal;
	like($rows // $code, qr/^(?:3|57014)$/, $flood);
}

# What never ends does so with the statement's time-out.  The connection that cancels
# gets the same.
my @endless = (
	[ 'SELECT *, 1 AS %s FROM t', qw(endless_notices endless_settings endless_rows) ],
	[ 'UPDATE w SET v = v + 0', qw(endless_settings endless_notices endless_rows) ],
	[ 'BEGIN; UPDATE w SET v = v + 0; SELECT id AS %s FROM t; COMMIT', qw(endless_rows endless_notices endless_settings) ],
);
for my $case (@endless)
{
	my ($sql, @alteration) = @$case;
	for my $endless ($is_long ? @alteration : $alteration[0])
	{
		prepare_case($endless);
		$proxy->rule($endless => 'server', type => 'D');
		my ($rows, $code) = run(make_sql($sql));
		$proxy->reset;
		like($code // 'none', qr/^(?:57014|08P01|SL004|08007)$/, "$endless: $sql");
	}
}
$session->close;
$proxy->rule(endless_notices => 'server', type => 'Z');
my ($rows, $code) = run('SELECT count(*) FROM t');
$proxy->reset;
like($code // 'none', qr/^(?:57014|08P01|SL004)$/, 'endless notices while connecting');
cmp_ok($c->log_mark($c->router) - $mark, '<', 2_000_000, 'the log stays small');

$session->close;
is($c->sql('SELECT pg_postmaster_start_time()'), $started, 'the router has not crashed');
unlike($c->log_since($c->router, 0), qr/TRAP|was terminated by signal|PANIC/, 'nor one of its processes');
is($c->sql('SELECT count(*) FROM t'), 9, 'and works');

done_testing();
