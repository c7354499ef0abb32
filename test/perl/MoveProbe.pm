
# MoveProbe
#	A map with tables, moves of its first shardlet, and the question whether
#	everything is where it belongs.
#
#	my $probe = MoveProbe->new($c);
#	$probe->start_move('read_only', 'move_copy:stop');
#	$probe->is_whole('after the crash');
#
#	my $session = $probe->meanwhile('online', 'move_copy', sub { ... });
#	$c->psql_end($session);

package MoveProbe;

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# Where a move can be stopped, in order: before a step, and after it before that
# is recorded.
my %points = (
	forth => [ map { ("move_$_", "move_${_}_done") } qw(mark wait copy verify switch settle remove finish) ],
	online => [ (map { ("move_$_", "move_${_}_done") } qw(mark wait copy follow switch detach settle remove finish)),
		'move_copy_subscribe', 'move_copy_slot', 'move_copy_lock', 'move_copy_rows', 'move_copy_enable', 'move_copy_compare', 'move_switch_lock', 'move_switch_marker' ],
	back => [ map { ("move_$_", "move_${_}_done") } qw(undo undo_remove undo_finish) ]);

sub points
{
	my (undef, $way) = @_;
	return @{ $points{$way} };
}

sub new
{
	my ($class, $c, %option) = @_;
	my $self = bless { c => $c, shards => $option{shards} // 3, rows => $option{rows} // 2000 }, $class;

	$c->sql(qq{
		SELECT shardlet.create_map('mv', shards => '{s1, s2}', shardlets => 4);
		CREATE TABLE customers (id bigint PRIMARY KEY, name text);
		CREATE TABLE orders (customer_id bigint REFERENCES customers, id bigint, v int, PRIMARY KEY (customer_id, id));
		SELECT shardlet.distribute_tables('{customers, orders}', 'mv', '{id, customer_id}');
		INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, $self->{rows} / 10) i;
		INSERT INTO orders SELECT i % ($self->{rows} / 10) + 1, i, i FROM generate_series(1, $self->{rows}) i});
	$self->{shardlet} = $c->sql(q{SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'mv'});
	$self->{sums} = $self->sums;
	return $self;
}

# What the router says of all rows.
sub sums
{
	my ($self) = @_;
	return $self->{c}->sql(q{SELECT count(*), sum(hashtext(c::text)) FROM customers c
		UNION ALL SELECT count(*), sum(hashtext(o::text)) FROM orders o
		UNION ALL SELECT count(*), sum(o.v) FROM customers c JOIN orders o ON o.customer_id = c.id});
}

sub owner
{
	my ($self) = @_;
	return $self->{c}->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $self->{shardlet}");
}

# Makes one shardlet of all, so that a shard that it leaves has nothing more.
sub make_one
{
	my ($self) = @_;
	my ($c, $owner) = ($self->{c}, $self->owner);
	my ($first, @others) = split /\n/, $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'mv' ORDER BY low});
	my @elsewhere = split /\n/, $c->sql("SELECT shardlet FROM shardlet.shardlets WHERE map = 'mv' AND shard <> '$owner'");

	$c->sql("CALL shardlet.move_shardlet($_, '$owner', 'read_only')") for @elsewhere;
	$first = $c->sql("SELECT shardlet.merge_shardlets($first, $_)") for @others;
	$self->{shardlet} = $first;
	return;
}

# Some other shard of the first three.
sub other
{
	my ($self) = @_;
	my $owner = $self->owner;
	return (grep { $_ ne $owner } qw(s1 s2))[0];
}

# Begins to move the shardlet to another shard, in the background.
sub start_move
{
	my ($self, $mode, $fault) = @_;
	$self->{from} = $self->owner;
	$self->{to} = $self->other;
	return $self->{c}->psql_begin("SET shardlet.fault = '$fault';
		CALL shardlet.move_shardlet($self->{shardlet}, '$self->{to}', '$mode')");
}

# Lets a move come to a point, does something, and lets it go on.  A fault before
# that can bring it there.
sub meanwhile
{
	my ($self, $mode, $point, $what, $fault) = @_;
	my $c = $self->{c};
	my $name = 'go' . ++$self->{number};
	my $mark = $c->log_mark($c->router);
	my $session = $self->start_move($mode, join ',', grep { $_ } $fault, "$point:wait=$name");

	# The point says on stderr that it was reached.
	for (1 .. 1000)
	{
		last if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		die "$point was not reached" if $_ == 1000;
		sleep 0.05;
	}
	$what->();

	# The mover's folder is the data directory.
	append_to_file($c->router->data_dir . "/$name", 'go');
	return $session;
}

# Waits until no move is open any more.
sub settle
{
	my ($self) = @_;
	return $self->{c}->poll('SELECT count(*) FROM shardlet.moves WHERE open', '0', 60);
}

sub last_move
{
	my ($self) = @_;
	return $self->{c}->sql('SELECT max(move) FROM shardlet.moves');
}

# The phase of the last move.
sub last_phase
{
	my ($self) = @_;
	return $self->{c}->sql('SELECT phase FROM shardlet.moves ORDER BY move DESC LIMIT 1');
}

# Nothing is missing, twice, in a wrong place or left behind.
sub is_whole
{
	my ($self, $name) = @_;
	my $c = $self->{c};
	my @problems;

	push @problems, 'a move is still open: ' . $c->sql('SELECT phase, last_error FROM shardlet.moves WHERE open')
	  if !$self->settle;
	my $sums = $self->sums;
	push @problems, "sums are $sums, not $self->{sums}" if $sums ne $self->{sums};
	my ($strays, $states, @conditions) = split /\n/, $c->sql(qq{
		SELECT count(*)::text FROM shardlet.catalog_stray
		UNION ALL SELECT string_agg(DISTINCT state, ', ') FROM shardlet.shardlets WHERE map = 'mv'
		UNION ALL (SELECT coalesce(string_agg(format('token BETWEEN %s AND %s', low, coalesce(high::numeric - 1, 9223372036854775807)), ' OR ') FILTER (WHERE shardlet IS NOT NULL), 'false')
			FROM generate_series(1, $self->{shards}) n LEFT JOIN shardlet.shardlets ON map = 'mv' AND shard = 's' || n GROUP BY n ORDER BY n)});
	push @problems, "$strays strays are left" if $strays ne '0';
	push @problems, "states are $states" if $states ne 'online';
	for my $shard (1 .. $self->{shards})
	{
		push @problems, "shard $shard: $_" for $self->problems_of($shard, $conditions[ $shard - 1 ]);
	}
	is(join('; ', @problems), '', $name);
	return;
}

# What is wrong on one shard, as it says itself.
sub problems_of
{
	my ($self, $shard, $condition) = @_;
	my $c = $self->{c};
	my ($has_tables, $left) = split /\|/, $c->shard_sql($shard, q{
		SELECT to_regclass('customers') IS NOT NULL, concat_ws(', ',
			(SELECT 'prepared transactions: ' || nullif(count(*), 0) FROM pg_prepared_xacts),
			(SELECT 'publications: ' || nullif(count(*), 0) FROM pg_publication),
			(SELECT 'subscriptions: ' || nullif(count(*), 0) FROM pg_subscription),
			(SELECT 'slots: ' || nullif(count(*), 0) FROM pg_replication_slots),
			(SELECT 'markers: ' || nullif(count(*), 0) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'shardlet'::regnamespace AND relname LIKE 'shardlet\_%'))}), -1;
	my @problems = grep { $_ } $left;

	return @problems if $has_tables ne 't';
	my $count = $c->shard_sql($shard, qq{
		SELECT count(*) FROM (SELECT hashint8extended(id, 0) AS token FROM customers UNION ALL SELECT hashint8extended(customer_id, 0) FROM orders) t
		WHERE ($condition) IS NOT TRUE});
	push @problems, "$count foreign rows" if $count ne '0';
	return @problems;
}

1;
