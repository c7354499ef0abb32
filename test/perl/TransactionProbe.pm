
# TransactionProbe
#	Transactions over shards whose outcome is looked up on the shards themselves,
#	and compared with what the client was told.
#
#	my $p = TransactionProbe->new($c);
#	my $t = $p->run(kind => 'shards', fault => 'txn_before_prepare:kill');
#	... bring everything up ...
#	$p->settle('after that');
#	$p->judge('none', $t);
#
#	my $t = $p->begin_at('txn_after_all_prepares', kind => 'local');
#	... let something happen ...
#	$p->let_go($t);
#
# A transaction has rows of its own and writes a value of its own, so no outcome
# can be taken for another's.  Kinds:
#	shards	writes to every shard
#	local	writes to a table on the router and to one shard
#	one		writes to one shard alone
#	alone	the same with a statement outside of a transaction block
# Options of run and begin: shard, s2 unless told; fault, a setting for
# shardlet.fault; set, further SQL ahead of it; name, for the report.

package TransactionProbe;

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# What must be over when everything is up again.
use constant SETTLE_SECONDS => 15;

# The next transaction on the same rows must not have to wait for anything.
use constant AT_ONCE => '3s';

use constant ROWS => 1200;

# What a dead session may have left on a shard.
my $left_sql = q{SELECT (SELECT count(*) FROM pg_prepared_xacts),
	(SELECT count(*) FROM pg_locks WHERE relation = 'acct'::regclass),
	(SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%')};

my $update = q{SELECT v FROM shardlet.query_key('m', 'UPDATE acct SET v = $1 WHERE id = $2 RETURNING v', '{%d,%d}', %d::bigint) AS q(v int);};

sub new
{
	my ($class, $c) = @_;
	my $self = bless { c => $c, value => 0, gates => 0, keys => {} }, $class;

	$c->sql(q{SELECT shardlet.create_map('m');
		CREATE TABLE local_acct (id bigint PRIMARY KEY, v int);
		SELECT * FROM shardlet.execute('m', 'CREATE TABLE acct (id bigint PRIMARY KEY, v int)')});
	my $routes = $c->sql('SELECT shardlet.route(\'m\', g::bigint), g FROM generate_series(1, ' . ROWS . ') g');
	for (split /\n/, $routes)
	{
		my ($shard, $key) = split /\|/;
		push @{ $self->{keys}{$shard} }, $key;
	}
	$self->{shards} = [ sort keys %{ $self->{keys} } ];
	$c->shard_sql($_, "INSERT INTO acct SELECT unnest('{" . join(',', @{ $self->{keys}{$_} }) . "}'::bigint[]), 0")
	  for @{ $self->{shards} };
	return $self;
}

# Begins a transaction; returns it.
sub begin
{
	my ($self, %t) = @_;

	$t{kind} //= 'shards';
	$t{name} //= "$t{kind}, " . ($t{fault} // 'no fault');
	$t{value} = ++$self->{value};
	$t{shards} = $t{kind} eq 'shards' ? $self->{shards} : [ $t{shard} // 's2' ];
	$t{keys} = { map { $_ => shift @{ $self->{keys}{$_} } } @{ $t{shards} } };
	my $work = $self->updates(\%t, $t{value});
	$work = "INSERT INTO local_acct VALUES ($t{value}, $t{value}); $work" if $t{kind} eq 'local';
	$work = "BEGIN; $work\nCOMMIT;" if $t{kind} ne 'alone';
	my $sql = ($t{set} // '') . ($t{fault} ? "SET shardlet.fault = '$t{fault}';" : '') . $work;
	$t{session} = $self->{c}->psql_begin($sql);
	return \%t;
}

# SQL that writes a value to all rows of a transaction.
sub updates
{
	my ($self, $t, $value) = @_;
	return join '', map { sprintf $update, $value, $_, $_ } @{ $t->{keys} }{ @{ $t->{shards} } };
}

# Takes in what the client was told: '' success, a SQLSTATE, 'lost'.
sub end
{
	my ($self, @transactions) = @_;
	for my $t (@transactions)
	{
		my ($status, undef, $stderr) = $self->{c}->psql_end(delete $t->{session});
		$t->{stderr} = $stderr;
		$t->{told} = $self->{c}->sqlstate_of($status, $stderr);
	}
	return;
}

# The same for a transaction that waits at a point of its way; returns when it is
# there.
sub begin_at
{
	my ($self, $point, %option) = @_;
	my $router = $self->{c}->router;
	my $gate = PostgreSQL::Test::Utils::tempdir . '/gate' . ++$self->{gates};
	my $mark = $self->{c}->log_mark($router);
	my $t = $self->begin(name => ($option{kind} // 'shards') . ", $point", %option, fault => "$point:wait=$gate");

	$router->wait_for_log(qr/fault \Q$point: wait=$gate\E/, $mark);
	$t->{gate} = $gate;
	return $t;
}

# Those that wait go on, to their end.
sub let_go
{
	my ($self, @transactions) = @_;
	append_to_file($_->{gate}, '') for @transactions;
	$self->end(@transactions);
	return;
}

sub run
{
	my ($self, %option) = @_;
	my $t = $self->begin(%option);
	$self->end($t);
	return $t;
}

# No session waits, holds a lock or hangs any more, without intervention: the shards
# are queried, since a session of the router would clean up by itself.
sub settle
{
	my ($self, $name) = @_;
	my $until = time + SETTLE_SECONDS;
	my @left = @{ $self->{shards} };
	my %answer;

	while (@left && time < $until)
	{
		$answer{$_} = $self->{c}->shard_sql($_, $left_sql) for @left;
		@left = grep { $answer{$_} ne '0|0|0' } @left;
		sleep 0.1 if @left;
	}
	is(join(' ', map { "$_=$answer{$_}" } @left), '', "$name: no transaction, lock or connection is left");
	return;
}

# Compares what happened to transactions with what had to happen ('all', 'none',
# or 'told': only as the client was told), and leaves their rows writable.
sub judge
{
	my ($self, $expected, @transactions) = @_;
	my $found = $self->look;

	for my $t (@transactions)
	{
		my $outcome = $self->outcome($t, $found);
		my $allowed = $expected ne 'told' ? $expected :
		  { '' => 'all', 'lost' => 'all|none', '08007' => 'all|none' }->{ $t->{told} } // 'none';

		like($outcome, qr/^(?:$allowed)$/, "$t->{name}: outcome");
		ok(told_truth($t->{told}, $outcome), "$t->{name}: told \"$t->{told}\"");
	}
	$self->write_again(@transactions);
	return;
}

sub told_truth
{
	my ($told, $outcome) = @_;
	return 1 if $told eq 'lost' || $told eq '08007';
	return $outcome eq ($told eq '' ? 'all' : 'none');
}

# All values there are: on the shards, and as a session of the router sees them.
sub look
{
	my ($self) = @_;
	my $sql = 'SELECT id, v FROM acct WHERE v > 0 ORDER BY id';
	my %found;

	for my $shard (@{ $self->{shards} })
	{
		$found{"$shard $_"} = 1 for split /\n/, $self->{c}->shard_sql($shard, $sql);
	}
	my @seen = split /\n/, $self->{c}->sql("SELECT shardlet_shard || ' ' || id || '|' || v FROM shardlet.query('m', '$sql') AS q(id bigint, v int, shardlet_shard name)");
	is(join(',', sort @seen), join(',', sort keys %found), 'a session of the router sees what is there');
	$found{"router $_"} = 1 for split /\n/, $self->{c}->sql('SELECT id, v FROM local_acct');
	return \%found;
}

# 'all', 'none' or where it is.
sub outcome
{
	my ($self, $t, $found) = @_;
	my %place = map { $_ => "$_ $t->{keys}{$_}|$t->{value}" } @{ $t->{shards} };

	$place{router} = "router $t->{value}|$t->{value}" if $t->{kind} eq 'local';
	my @there = grep { $found->{ $place{$_} } } sort keys %place;
	return @there == keys %place ? 'all' : @there ? "only @there" : 'none';
}

sub write_again
{
	my ($self, @transactions) = @_;
	my $sql = q{SET statement_timeout = '} . AT_ONCE . q{';};

	$sql .= 'BEGIN;' . $self->updates($_, 0) . "COMMIT;\n" for @transactions;
	my ($status, undef, $stderr) = $self->{c}->psql_err($sql);
	is("$status $stderr", '0 ', 'the next transaction on the same rows succeeds at once');
	return;
}

1;
