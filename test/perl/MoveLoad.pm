
# MoveLoad
#	Clients that read and write while shardlets are moved about, with a model of
#	what must be there: a local table of the router gets each change in the
#	same transaction.
#
#	my $load = MoveLoad->new($c, clients => 4, seconds => 10);
#	$load->start;
#	... move ...
#	$load->finish;

package MoveLoad;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my %scripts = (
	update => [ 6, q{
\set k random(1, 500)
\set d random(-1000, 1000)
BEGIN;
UPDATE account SET v = v + :d WHERE k = :k;
INSERT INTO model VALUES ('account', :k, :d);
COMMIT;
} ],
	# One statement, one shard: what waits at the switch is done again.
	alone => [ 4, q{
\set k random(1, 500)
UPDATE account SET n = n + 1 WHERE k = :k;
} ],
	insert => [ 2, q{
\set k random(1, 500)
BEGIN;
INSERT INTO entry (k, id) VALUES (:k, nextval('entry_seq'));
INSERT INTO model VALUES ('entry', :k, 1);
COMMIT;
} ],
	delete => [ 1, q{
\set k random(1, 500)
BEGIN;
WITH gone AS (DELETE FROM entry WHERE k = :k RETURNING k)
INSERT INTO model SELECT 'entry', k, -1 FROM gone;
COMMIT;
} ],
	read => [ 3, q{
\set k random(1, 500)
SELECT 1 / count(*) FROM account WHERE k = :k;
} ],
	sum => [ 2, q{
SELECT 1 / (CASE WHEN count(*) = 500 AND count(DISTINCT k) = 500 THEN 1 ELSE 0 END) FROM account;
} ],
	join => [ 1, q{
SELECT 1 / (CASE WHEN count(*) = 500 THEN 1 ELSE 0 END) FROM account a JOIN fixed f ON f.k = a.k;
} ],
	# A key that changes takes its row to another shard.
	walk => [ 1, q{
\set k random(1, 1000000)
UPDATE walker SET k = :k * 100 + :client_id WHERE id = :client_id;
} ]);

sub new
{
	my ($class, $c, %option) = @_;
	my $self = bless { c => $c, clients => 4, seconds => 10, %option }, $class;

	$self->{folder} = PostgreSQL::Test::Utils::tempdir;
	for my $name (keys %scripts)
	{
		PostgreSQL::Test::Utils::append_to_file("$self->{folder}/$name.sql", $scripts{$name}[1]);
	}
	$c->sql(qq{
		SELECT shardlet.create_map('ld', shardlets => 8);
		CREATE TABLE account (k bigint PRIMARY KEY, v int, n int);
		CREATE TABLE fixed (k bigint PRIMARY KEY, filler text);
		CREATE TABLE entry (k bigint, id bigint, PRIMARY KEY (k, id));
		CREATE TABLE walker (k bigint PRIMARY KEY, id int);
		CREATE SEQUENCE entry_seq;
		CREATE TABLE model (what text, k bigint, d int);
		SELECT shardlet.distribute(t, 'ld', 'k') FROM unnest('{account,fixed,entry,walker}'::regclass[]) t;
		INSERT INTO account SELECT i, 0, 0 FROM generate_series(1, 500) i;
		INSERT INTO fixed SELECT i, repeat('x', 200) FROM generate_series(1, 500) i;
		INSERT INTO walker SELECT i * 100, i FROM generate_series(0, $self->{clients} - 1) i});
	return $self;
}

sub start
{
	my ($self) = @_;
	my @scripts = map { ('-f', "$self->{folder}/$_.sql\@$scripts{$_}[0]") } sort keys %scripts;

	$self->{output} = '';
	$self->{end} = time + $self->{seconds} - 1;
	$self->{pgbench} = IPC::Run::start(
		[
			'pgbench', '-n', '-M', 'prepared', '-c', $self->{clients}, '-j', 2, '-T', $self->{seconds},
			'--max-tries=50', '--failures-detailed', @scripts, $self->{c}->router->connstr('app')
		],
		'<', \undef, '>&', \$self->{output});
	return;
}

sub runs
{
	my ($self) = @_;
	$self->{pgbench}->pump_nb;
	return $self->{pgbench}->pumpable && time < $self->{end};
}

# Everybody is done: no error but those that were tried again, and all is as the model says.
sub finish
{
	my ($self) = @_;
	my $c = $self->{c};

	$self->{pgbench}->finish;
	is($self->{pgbench}->result(0), 0, 'no client met an error');
	my ($done) = $self->{output} =~ /transactions actually processed: (\d+)/;
	my ($failed) = $self->{output} =~ /number of failed transactions: (\d+)/;
	cmp_ok($done // 0, '>', 100, 'they did something: ' . ($done // 0));
	is($failed // 'unknown', 0, 'nothing failed for good');
	diag($self->{output}) if $self->{pgbench}->result(0) != 0;
	is($c->sql(q{SELECT count(*) FROM account a FULL JOIN (SELECT k, sum(d) AS d FROM model WHERE what = 'account' GROUP BY k) m USING (k)
		WHERE a.v IS DISTINCT FROM coalesce(m.d, 0)}), '0', 'accounts are as the model says');
	is($c->sql(q{SELECT count(*) FROM (SELECT k, count(*) AS n FROM entry GROUP BY k) e FULL JOIN
		(SELECT k, sum(d) AS d FROM model WHERE what = 'entry' GROUP BY k) m USING (k) WHERE coalesce(e.n, 0) <> coalesce(m.d, 0)}),
		'0', 'entries are as the model says');
	my ($alone) = $self->{output} =~ /alone\.sql\n(?:.*\n)*? - (\d+) transactions/;
	is($c->sql('SELECT sum(n) FROM account'), $alone, 'each single statement was done once');
	is($c->sql('SELECT count(*), count(DISTINCT id) FROM walker'), "$self->{clients}|$self->{clients}", 'walkers are all there');
	return;
}

1;
