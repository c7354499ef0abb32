
# RandomWrite
#	Random INSERT, UPDATE and DELETE statements over the tables of RandomSchema, of
#	which SQL defines what they do: no row is changed twice, none has two sources.
#
#	my $statement = RandomWrite->new(seed => 42)->write;
#	# { sql, values, writes => [names of tables] }

package RandomWrite;

use strict;
use warnings;

use RandomSchema;

use parent 'RandomQuery';

# Columns that a statement mostly does not leave NULL.
my %needed = map { $_ => 1 } qw(customers.name products.name accounts.balance loose.cid);

sub write
{
	my ($self) = @_;
	my $statement = $self->_chance(0.15) ? $self->_writing_with : $self->_chance(0.08) ? $self->_with_source : $self->_statement($self->_target);

	@$statement{qw(sql values)} = $self->with_values($statement->{sql});
	return $statement;
}

sub _target
{
	my ($self) = @_;
	my @family = grep { $RandomSchema::tables{$_}{kind} =~ /sharded|placed/ } @{ $self->{family} };
	return $self->_pick(@family) if @family && $self->_chance($self->{style} eq 'any' ? 0.5 : 0.9);
	return $self->_pick(@RandomSchema::order);
}

sub _statement
{
	my ($self, $name) = @_;
	my $chance = rand;

	return $self->_insert_values($name) if $chance < 0.25;
	return $self->_insert_query($name) if $chance < 0.4;
	return $self->_delete($name) if $chance < 0.6;
	return $self->_update($name);
}

sub _returning
{
	my ($self, $relation) = @_;

	return '' if !$self->{must_return} && !$self->_chance(0.35);
	return ' RETURNING ' . join(', ', map { "$relation->{alias}.$_->[0]" } @{ $relation->{columns} }) if $self->{must_return};
	return " RETURNING $relation->{alias}.*" if $self->_chance(0.3);
	return ' RETURNING ' . join(', ', map { $self->expression([$relation], $_, 1) } $self->_types([$relation]));
}

### INSERT

sub _insert_values
{
	my ($self, $name) = @_;
	my $relation = $self->table($name);
	my @columns = $self->_insert_columns($relation);
	my @rows = map { $self->_new_key($relation) } 1 .. $self->_pick(1, 1, 1, 2, 3, 5);
	my $conflict = $self->_conflict($relation);
	my (%seen, @texts);

	for my $key (@rows)
	{
		# Two rows that conflict with each other are another matter.
		next if $conflict ne '' && $seen{ join ' ', map { "$_ $key->{$_}" } sort keys %$key }++;
		push @texts, '(' . join(', ', map { $key->{ $_->[0] } // $self->_new_value($name, $_) } @columns) . ')';
	}
	my $names = join ', ', map { $_->[0] } @columns;
	my $sql = "INSERT INTO $name AS $relation->{alias} ($names) VALUES " . join(', ', @texts) . $conflict . $self->_returning($relation);
	return { sql => $sql, writes => [$name] };
}

# The columns of the key and some others, in any order.
sub _insert_columns
{
	my ($self, $relation) = @_;
	my %is_key = map { $_ => 1 } @{ $relation->{unique} // [] };
	return $self->_shuffle(grep { $is_key{ $_->[0] } || $needed{"$relation->{name}.$_->[0]"} && !$self->_chance(0.03) || $self->_chance(0.8) } @{ $relation->{columns} });
}

# Values for the columns that identify a row: mostly of a row that is not there.
sub _new_key
{
	my ($self, $relation) = @_;
	my @unique = @{ $relation->{unique} // [] };
	my %type = map { $_->[0] => $_ } @{ $relation->{columns} };
	my %key = map { $_ => $self->_literal($type{$_}[2] // $type{$_}[1]) } @unique;
	my ($last) = grep { $type{$_}[1] eq 'int' } reverse @unique;

	return {} if !@unique;
	if ($self->_chance(0.85))
	{
		$key{$last} = 200 + int rand 2000 if $last;
		$key{ $unique[0] } = "'k" . int(rand 100) . "'" if !$last;
		$key{customer_id} = 1 + int rand 36 if $key{customer_id} && $last ne 'customer_id';
		$key{order_id} = 1 if $key{order_id} && $last ne 'order_id';
	}
	if ($self->{style} eq 'one')
	{
		for (grep { / = / } $self->_pins({ %$relation, alias => 't' }))
		{
			my ($column, $value) = /^t\.(\w+) = (.*)/s;
			$key{$column} = $value if $column ne ($last // '') || $self->_chance(0.2);
		}
	}
	return \%key;
}

sub _new_value
{
	my ($self, $name, $column) = @_;
	my ($column_name, $type, $domain) = @$column;

	return 'DEFAULT' if $self->_chance(0.04);
	return 'NULL' if !$needed{"$name.$column_name"} && $self->_chance(0.1);
	return $self->_scalar_subquery([], $type, 2) if $self->_chance(0.06);
	return $self->expression([], $type, 1) if $self->_chance(0.15);
	return $self->_literal($domain // $type, 1);
}

# INSERT ... SELECT from the table itself with other keys, or, where rows need not
# be different, from anywhere.
sub _insert_query
{
	my ($self, $name) = @_;
	my $relation = $self->table($name);
	my @columns = $self->_insert_columns($relation);
	my $names = join ', ', map { $_->[0] } @columns;
	my $conflict = $self->_conflict($relation);
	my $sql;

	if ($relation->{unique})
	{
		my $source = $self->table($name);
		my $key = $self->_moved_key($source, $conflict);
		my @out = map { $key->{ $_->[0] } // $self->_needed($name, $_, $self->expression([$source], $_->[1], 1)) } @columns;
		$sql = 'SELECT ' . join(', ', @out) . " FROM $source->{sql} WHERE " . join(' AND ', $self->_pins($source), $self->condition([$source], 0));
	}
	else
	{
		my $query = $self->query(1, map { $_->[1] } @columns);
		my $inner = $self->_alias;
		my @out = map { $self->_needed($name, $columns[$_], "$inner.c" . ($_ + 1)) } 0 .. $#columns;
		$sql = 'SELECT ' . join(', ', @out) . " FROM ($query->{sql}) AS $inner(" . join(', ', map { "c$_" } 1 .. @columns) . ')';
	}
	return { sql => "INSERT INTO $name AS $relation->{alias} ($names) $sql$conflict" . $self->_returning($relation), writes => [$name] };
}

# What identifies a row, moved away from all that are there, unless a conflict is
# wanted.
sub _moved_key
{
	my ($self, $source, $conflict) = @_;
	my %type = map { $_->[0] => $_->[1] } @{ $source->{columns} };
	my %key = map { $_ => "$source->{alias}.$_" } @{ $source->{unique} };
	my ($last) = grep { $type{$_} eq 'int' } reverse @{ $source->{unique} };

	return \%key if $conflict ne '' && $self->_chance(0.5);
	$key{$last} .= $conflict eq '' ? ' + 3000' : ' + 2' if $last;
	$key{ $source->{unique}[0] } .= " || 'x'" if !$last;
	return \%key;
}

# An expression, made not NULL where the column needs it.
sub _needed
{
	my ($self, $name, $column, $expression) = @_;
	return $expression if !$needed{"$name.$column->[0]"};
	return "coalesce($expression, " . { int => 7, num => '0.00', text => "'none'" }->{ $column->[1] } . ')';
}

sub _conflict
{
	my ($self, $relation) = @_;
	my @unique = @{ $relation->{unique} // [] };
	my %is_key = map { $_ => 1 } @unique;
	my @others = grep { !$is_key{ $_->[0] } } @{ $relation->{columns} };
	my $excluded = { %$relation, alias => 'excluded' };

	return '' if !@unique || !$self->_chance(0.3);
	return ' ON CONFLICT DO NOTHING' if $self->_chance(0.2);
	my $target = ' ON CONFLICT (' . join(', ', $self->_shuffle(@unique)) . ')';
	return "$target DO NOTHING" if $self->_chance(0.3);

	# The shard computes it, and knows the row alone.
	local $self->{flat} = 1;
	my @set;
	for my $column (($self->_shuffle(@others))[ 0 .. $self->_pick(0, 1) ])
	{
		my ($column_name, $type) = @{ $column // next };
		my $value = $self->_chance(0.6) ? "excluded.$column_name" : $self->expression([ $relation, $excluded ], $type, 1);
		push @set, "$column_name = " . $self->_needed($relation->{name}, $column, $value);
	}
	return "$target DO UPDATE SET " . join(', ', @set) . ($self->_chance(0.3) ? ' WHERE ' . $self->condition([ $relation, $excluded ], 1) : '');
}

### UPDATE and DELETE

sub _update
{
	my ($self, $name) = @_;
	my $relation = $self->table($name);
	my %is_key = map { $_ => 1 } @{ $relation->{unique} // $relation->{table}{key} // [] };
	my @others = grep { !$is_key{ $_->[0] } } @{ $relation->{columns} };
	my @scope = ($relation);
	my @where;
	my $from = '';

	if ($self->_chance(0.3))
	{
		my ($source, $condition) = $self->_one_source($relation);
		$from = " FROM $source->{sql}";
		push @scope, $source;
		push @where, $condition;
	}
	push @where, (map { $self->_pins($_) } @scope), map { $self->condition(\@scope, 0) } 1 .. $self->_pick(0, 1, 1, 1, 2);
	push @where, $self->_after_first($relation) if $self->{is_second};
	my @columns = ($self->_shuffle(@others))[ 0 .. $self->_pick(0, 0, 1) ];
	my @set = map { "$_->[0] = " . ($self->_chance(0.03) ? 'DEFAULT' : $self->_needed($name, $_, $self->expression(\@scope, $_->[1], 0))) } grep { $_ } @columns;
	@set = $self->_set_row($name, $relation, grep { $_ } @columns) if $self->_chance(0.1);
	push @set, $self->_set_key($relation) if $self->_chance(0.12);
	my $sql = "UPDATE $name AS $relation->{alias} SET " . join(', ', @set) . $from . (@where ? ' WHERE ' . join(' AND ', @where) : '') . $self->_returning($relation);
	return { sql => $sql, writes => [$name] };
}

# (a, b) = (SELECT ...)
sub _set_row
{
	my ($self, $name, $relation, @columns) = @_;
	my $inner = $self->_relation(2);
	my @out = map { $self->_needed($name, $_, $self->_aggregate([$inner], $_->[1], 2)) } @columns;
	return '(' . join(', ', map { $_->[0] } @columns) . ') = (SELECT ' . join(', ', @out) . " FROM $inner->{sql} WHERE " . $self->_join_condition([$relation], $inner, 1) . ')';
}

# A new key, far from all that are there.
sub _set_key
{
	my ($self, $relation) = @_;
	my %type = map { $_->[0] => $_ } @{ $relation->{columns} };
	my @key = @{ $relation->{table}{key} // $relation->{unique} // return };
	my ($int) = grep { $type{$_}[1] eq 'int' } @key;

	return "$int = $relation->{alias}.$int + " . $self->_pick(5000, 5001, 10000) if $int;
	return "$key[0] = " . $self->_literal($type{ $key[0] }[2], 1);
}

# A relation with at most one row for each of the target's, and the condition that
# finds it.
sub _one_source
{
	my ($self, $relation) = @_;
	my %has = map { $_->[0] => 1 } @{ $relation->{columns} };
	my @parents = grep { my $t = $RandomSchema::tables{$_}; $t->{unique} && $_ ne $relation->{name} && !grep { !$has{$_} } @{ $t->{unique} } } @RandomSchema::order, @RandomSchema::views;

	if (@parents && $self->_chance(0.6))
	{
		my $source = $self->table($self->_pick(@parents));
		return ($source, join ' AND ', map { "$source->{alias}.$_ = $relation->{alias}.$_" } @{ $source->{unique} });
	}
	my $inner = $self->_relation(2);
	my @columns = grep { $_->[1] !~ /^(doc|arr|flt|bool)$/ } $self->_columns([$inner]);
	my $by = $self->_pick(@columns) // return $self->_one_source($relation);
	my @mine = $self->_columns([$relation], $by->[1]) or return $self->_one_source($relation);
	my $type = $self->_type;
	my $sql = "SELECT $by->[0], " . $self->_aggregate([$inner], $type, 2) . " FROM $inner->{sql} GROUP BY $by->[0]";
	my $source = $self->_named({ sql => $sql }, '(', ')', '', $by->[1], $type);
	return ($source, "$source->{alias}.c1 = " . $self->_pick(@mine)->[0]);
}

sub _delete
{
	my ($self, $name) = @_;
	my $relation = $self->table($name);
	my @scope = ($relation);
	my @where;
	my $using = '';

	if ($self->_chance(0.25))
	{
		my $source = $self->_relation(1);
		$using = " USING $source->{sql}";
		push @where, $self->_join_condition([$relation], $source, 1);
		push @scope, $source;
	}
	push @where, (map { $self->_pins($_) } @scope), map { $self->condition(\@scope, 0) } 1 .. $self->_pick(0, 1, 1, 1, 2);
	push @where, $self->_after_first($relation) if $self->{is_second};
	my $sql = "DELETE FROM $name AS $relation->{alias}$using" . (@where ? ' WHERE ' . join(' AND ', @where) : '') . $self->_returning($relation);
	return { sql => $sql, writes => [$name] };
}

### WITH

# What a WITH writes is read, or written elsewhere.
sub _writing_with
{
	my ($self) = @_;
	my $name = $self->_target;
	my $first = do {
		local $self->{must_return} = 1;
		$self->_statement($name);
	};
	my $table = $RandomSchema::tables{$name};

	push @{ $self->{ctes} }, { name => 'w', columns => $table->{columns} };
	if ($self->_chance(0.5))
	{
		my $query = $self->query(0);
		$query->{sql} =~ s/ FOR (UPDATE|SHARE|NO KEY UPDATE) OF .*//;
		return { sql => "WITH w AS ($first->{sql}) $query->{sql}", order => $query->{order}, writes => $first->{writes} };
	}
	return $self->_second_change($name, $first) if $self->_chance(0.5);
	my $second = $self->_pick(grep { $_ ne $name } qw(loose events));
	my $relation = $self->table($second);
	my @columns = $self->_insert_columns($relation);
	my $source = { %{ $self->{ctes}[-1] }, alias => 'w' };
	my @out = map { $self->_needed($second, $_, $self->expression([$source], $_->[1], 1)) } @columns;
	my $sql = "WITH w AS ($first->{sql}) INSERT INTO $second AS $relation->{alias} (" . join(', ', map { $_->[0] } @columns) . ') SELECT ' . join(', ', @out) . ' FROM w' . $self->_returning($relation);
	return { sql => $sql, writes => [ $name, $second ] };
}

# Another change of the same table: it sees nothing of the first one, and leaves rows
# alone that this has changed.
sub _second_change
{
	my ($self, $name, $first) = @_;
	local $self->{is_second} = 1;
	my $second = $self->_chance(0.6) ? $self->_update($name) : $self->_delete($name);

	return { sql => "WITH w AS ($first->{sql}) $second->{sql}", writes => $first->{writes} };
}

# Which of the two changes a row is defined only if one has run to its end before the
# other begins: so each row's condition needs all of the first.
sub _after_first
{
	my ($self, $relation) = @_;
	my @ints = $self->_columns([$relation], 'int');
	my $count = '(SELECT count(*) FROM w)';

	return "$count " . $self->_pick('>= 0', '<> 1', '> 0') if !@ints || $self->_chance(0.3);
	return $self->_pick(@ints)->[0] . $self->_pick(" <> $count", " >= $count - 3", " < $count + 20");
}

# A WITH that reads, before a statement that writes.
sub _with_source
{
	my ($self) = @_;
	my $query = $self->query(1);
	my @types = @{ $query->{types} };

	push @{ $self->{ctes} }, { name => 'w', columns => [ map { [ "c$_", $types[ $_ - 1 ] ] } 1 .. @types ] };
	my $statement = $self->_statement($self->_target);
	$statement->{sql} = 'WITH w(' . join(', ', map { "c$_" } 1 .. @types) . ') AS ' . $self->_pick('', 'MATERIALIZED ') . "($query->{sql}) $statement->{sql}";
	return $statement;
}

1;
