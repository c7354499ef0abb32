import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** JDBC: DatabaseMetaData, batches, generated keys, server-side prepared statements, cursors, savepoints, COPY. */
public class Client {
	static Connection connection;

	static void section(String name) {
		System.out.println("== " + name);
	}

	static void print(Object... values) {
		System.out.println("   " + Arrays.deepToString(values));
	}

	static Connection connect(String... options) throws SQLException {
		Properties properties = new Properties();
		properties.setProperty("user", System.getenv("PGUSER"));
		properties.setProperty("password", System.getenv("PGPASSWORD"));
		for (int i = 0; i < options.length; i += 2)
			properties.setProperty(options[i], options[i + 1]);
		return DriverManager.getConnection("jdbc:postgresql://localhost:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
	}

	/** Rows of a result, with the names and types of its columns; all but OIDs. */
	static void show(ResultSet result, String... hidden) throws SQLException {
		ResultSetMetaData meta = result.getMetaData();
		List<String> names = new ArrayList<>();
		for (int i = 1; i <= meta.getColumnCount(); i++)
			names.add(meta.getColumnName(i) + " " + meta.getColumnTypeName(i) + " " + meta.getPrecision(i) + " " + meta.isNullable(i) + " " + meta.isAutoIncrement(i) + " " + meta.getTableName(i));
		print(names);
		showRows(result, hidden);
	}

	static void showRows(ResultSet result, String... hidden) throws SQLException {
		ResultSetMetaData meta = result.getMetaData();
		while (result.next()) {
			List<String> row = new ArrayList<>();
			for (int i = 1; i <= meta.getColumnCount(); i++)
				if (!Arrays.asList(hidden).contains(meta.getColumnName(i)))
					row.add(String.valueOf(result.getString(i)));
			print(row);
		}
		result.close();
	}

	static void run(String sql, Object... parameters) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < parameters.length; i++)
				statement.setObject(i + 1, parameters[i]);
			if (statement.execute())
				show(statement.getResultSet());
			else
				print(statement.getUpdateCount());
		}
	}

	static void execute(String sql) throws SQLException {
		try (Statement statement = connection.createStatement()) {
			statement.execute(sql);
		}
	}

	static void fails(String sql) throws SQLException {
		Savepoint savepoint = connection.setSavepoint();
		try {
			execute(sql);
			print("no error");
		} catch (org.postgresql.util.PSQLException error) {
			var server = error.getServerErrorMessage();
			print(error.getSQLState(), server.getMessage(), String.valueOf(server.getDetail()).replaceAll("[0-9a-f]{8}-[0-9a-f-]{27}", "uuid"), server.getSchema(), server.getTable(), server.getColumn(), server.getConstraint());
			connection.rollback(savepoint);
		}
		connection.releaseSavepoint(savepoint);
	}

	static void metadata() throws SQLException {
		DatabaseMetaData meta = connection.getMetaData();
		showRows(meta.getTables(null, "public", "%", new String[] {"TABLE", "VIEW", "FOREIGN TABLE", "PARTITIONED TABLE"}));
		for (String table : List.of("accounts", "orders", "items", "log")) {
			print(table);
			showRows(meta.getColumns(null, "public", table, "%"));
			showRows(meta.getPrimaryKeys(null, "public", table));
			showRows(meta.getIndexInfo(null, "public", table, false, true), "CARDINALITY", "PAGES");
			showRows(meta.getImportedKeys(null, "public", table));
			showRows(meta.getExportedKeys(null, "public", table));
			showRows(meta.getBestRowIdentifier(null, "public", table, DatabaseMetaData.bestRowSession, true));
			showRows(meta.getTablePrivileges(null, "public", table));
		}
		showRows(meta.getCrossReference(null, "public", "accounts", null, "public", "orders"));
	}

	static void batches() throws SQLException {
		section("generated keys");
		try (PreparedStatement insert = connection.prepareStatement("INSERT INTO accounts (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
			for (int i = 1; i <= 10; i++) {
				insert.setString(1, "account " + i);
				insert.addBatch();
			}
			print(insert.executeBatch());
			showRows(insert.getGeneratedKeys());
		}
		try (PreparedStatement insert = connection.prepareStatement("INSERT INTO orders (account_id, total) VALUES (?, ?)", new String[] {"id", "gross"})) {
			insert.setLong(1, 3);
			insert.setBigDecimal(2, new BigDecimal("12.50"));
			print(insert.executeUpdate());
			showRows(insert.getGeneratedKeys());
		}
		connection.commit();
		section("batches");
		try (PreparedStatement insert = connection.prepareStatement("INSERT INTO orders (account_id, total, state, at, tags) VALUES (?, ?, ?::state, ?, ?)")) {
			for (int i = 0; i < 500; i++) {
				insert.setLong(1, i % 10 + 1);
				insert.setBigDecimal(2, BigDecimal.valueOf(i, 2));
				insert.setString(3, i % 2 == 0 ? "open" : "done");
				insert.setTimestamp(4, Timestamp.valueOf("2026-01-01 00:00:00"));
				insert.setArray(5, connection.createArrayOf("text", new String[] {"a", "b" + i}));
				insert.addBatch();
			}
			print(Arrays.stream(insert.executeBatch()).sum());
		}
		try (Statement batch = connection.createStatement()) {
			batch.addBatch("UPDATE orders SET total = total + 1 WHERE account_id = 1");
			batch.addBatch("DELETE FROM orders WHERE account_id = 2 AND id % 2 = 0");
			batch.addBatch("UPDATE orders SET total = total + 1");
			print(batch.executeBatch());
		}
		connection.commit();
		try (Statement batch = connection.createStatement()) {
			batch.addBatch("INSERT INTO accounts (id, name) VALUES (100, 'lost')");
			batch.addBatch("INSERT INTO accounts (id, name) VALUES (1, 'twice')");
			batch.addBatch("INSERT INTO accounts (id, name) VALUES (101, 'lost')");
			print(batch.executeBatch());
		} catch (BatchUpdateException error) {
			print(error.getUpdateCounts(), error.getSQLState());
			connection.rollback();
		}
		run("SELECT count(*), sum(total) FROM orders");
		run("SELECT id FROM accounts ORDER BY id");
		connection.commit();
	}

	static void prepared() throws SQLException {
		section("prepared statements with types that change");
		try (PreparedStatement select = connection.prepareStatement("SELECT count(*) FROM orders WHERE account_id = ? AND total > ?")) {
			for (int i = 0; i < 12; i++) {
				switch (i % 4) {
					case 0: select.setInt(1, 3); break;
					case 1: select.setLong(1, 3); break;
					case 2: select.setObject(1, new BigDecimal(3)); break;
					default: select.setShort(1, (short) 3);
				}
				if (i % 3 == 0)
					select.setDouble(2, 1.5);
				else
					select.setBigDecimal(2, new BigDecimal("1.5"));
				showRows(select.executeQuery());
			}
			print(select.getParameterMetaData().getParameterTypeName(1), select.getMetaData().getColumnTypeName(1));
		}
		try (PreparedStatement select = connection.prepareStatement("SELECT id, total, at, tags FROM orders WHERE account_id = ? AND id < 30 ORDER BY id")) {
			for (int i = 1; i < 9; i++) {
				select.setLong(1, i);
				showRows(select.executeQuery());
			}
			execute("ALTER TABLE orders ADD COLUMN extra int DEFAULT 7");
			select.setLong(1, 4);
			showRows(select.executeQuery());
			execute("ALTER TABLE orders DROP COLUMN extra");
			connection.commit();
		}
		try (PreparedStatement update = connection.prepareStatement("UPDATE orders SET at = ?, state = COALESCE(?::state, state) WHERE account_id = ? AND id = ?")) {
			for (int i = 0; i < 10; i++) {
				if (i % 2 == 0)
					update.setNull(1, Types.TIMESTAMP);
				else
					update.setObject(1, java.time.OffsetDateTime.parse("2026-02-03T04:05:06Z"));
				update.setNull(2, Types.VARCHAR);
				update.setObject(3, i + 1, Types.BIGINT);
				update.setLong(4, i + 2);
				print(update.executeUpdate());
			}
		}
		connection.commit();
	}

	static void cursors() throws SQLException {
		section("cursors and updatable results");
		try (Statement statement = connection.createStatement()) {
			statement.setFetchSize(20);
			ResultSet result = statement.executeQuery("SELECT id FROM orders ORDER BY id");
			int rows = 0;
			while (result.next())
				rows++;
			print(rows);
			statement.setMaxRows(5);
			showRows(statement.executeQuery("SELECT id FROM orders WHERE account_id = 5 ORDER BY id"));
		}
		try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
			ResultSet result = statement.executeQuery("SELECT account_id, id, total FROM orders WHERE account_id = 6 AND id < 50 ORDER BY id");
			result.last();
			print(result.getRow());
			result.updateBigDecimal("total", new BigDecimal("77.00"));
			result.updateRow();
			result.first();
			result.deleteRow();
			result.moveToInsertRow();
			result.updateLong("account_id", 6);
			result.updateLong("id", 10000);
			result.updateBigDecimal("total", BigDecimal.ONE);
			result.insertRow();
		}
		run("SELECT id, total FROM orders WHERE account_id = 6 AND (id < 50 OR id > 9999) ORDER BY id");
		connection.commit();
	}

	static void transactions() throws SQLException {
		section("savepoints and errors");
		run("UPDATE accounts SET name = 'kept' WHERE id = 1");
		Savepoint savepoint = connection.setSavepoint("first");
		run("UPDATE accounts SET name = 'undone' WHERE id IN (1, 2, 3)");
		connection.rollback(savepoint);
		fails("INSERT INTO accounts (id, name) VALUES (1, 'twice')");
		fails("INSERT INTO orders (account_id, total) VALUES (777, 1)");
		fails("INSERT INTO orders (account_id, total) VALUES (1, -1)");
		fails("INSERT INTO orders (account_id) VALUES (1)");
		fails("SELECT * FROM orders WHERE account_id = 'x'");
		run("SELECT id, name FROM accounts WHERE id < 4 ORDER BY id");
		connection.commit();
		section("locks and isolation");
		try (Connection other = connect()) {
			other.setAutoCommit(false);
			run("SELECT id FROM orders WHERE account_id = 7 ORDER BY id LIMIT 2 FOR UPDATE");
			try (Statement statement = other.createStatement()) {
				showRows(statement.executeQuery("SELECT id FROM orders WHERE account_id = 7 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED"));
				statement.setQueryTimeout(1);
				statement.executeUpdate("UPDATE orders SET total = 0 WHERE account_id = 7");
			} catch (SQLException error) {
				print(error.getSQLState());
				other.rollback();
			}
			connection.commit();
			for (int level : new int[] {Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE}) {
				other.setTransactionIsolation(level);
				try (Statement statement = other.createStatement()) {
					showRows(statement.executeQuery("SELECT count(*) FROM orders WHERE account_id = 8"));
					run("DELETE FROM orders WHERE account_id = 8 AND id = (SELECT min(id) FROM orders WHERE account_id = 8)");
					connection.commit();
					showRows(statement.executeQuery("SELECT count(*) FROM orders WHERE account_id = 8"));
				}
				other.commit();
			}
			other.setReadOnly(true);
			try (Statement statement = other.createStatement()) {
				statement.executeUpdate("DELETE FROM orders WHERE account_id = 8");
			} catch (SQLException error) {
				print(error.getSQLState());
			}
			other.rollback();
		}
		section("upsert and COPY");
		run("INSERT INTO orders (account_id, id, total) VALUES (?, ?, ?) ON CONFLICT (account_id, id) DO UPDATE SET total = orders.total + EXCLUDED.total RETURNING total", 3L, 1L, BigDecimal.TEN);
		CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
		try {
			print(copy.copyIn("COPY items (account_id, order_id, n, what) FROM STDIN (FORMAT csv)", new StringReader("3,1,1,\"a, b\"\n3,1,2,\n")));
			var text = new java.io.StringWriter();
			print(copy.copyOut("COPY (SELECT * FROM items ORDER BY n) TO STDOUT", text), text.toString());
		} catch (java.io.IOException error) {
			throw new SQLException(error);
		}
		connection.commit();
		try (CallableStatement call = connection.prepareCall("{? = call total_of(?)}")) {
			call.registerOutParameter(1, Types.NUMERIC);
			call.setLong(2, 3);
			call.execute();
			print(call.getBigDecimal(1));
		}
		connection.commit();
	}

	/** How a pooler in transaction mode, or a driver without server-side statements, sends it. */
	static void modes() throws SQLException {
		section("query modes");
		for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything"))
			try (Connection other = connect("preferQueryMode", mode, "reWriteBatchedInserts", "true", "prepareThreshold", "1");
					PreparedStatement insert = other.prepareStatement("INSERT INTO items (account_id, order_id, n, what) VALUES (?, ?, ?, ?)");
					PreparedStatement select = other.prepareStatement("SELECT count(*), max(what) FROM items WHERE account_id = ?")) {
				for (int i = 0; i < 10; i++) {
					insert.setLong(1, 3);
					insert.setLong(2, 1);
					insert.setInt(3, 100 + i + 10 * mode.length());
					insert.setString(4, mode);
					insert.addBatch();
				}
				print(insert.executeBatch().length);
				for (int i = 1; i < 8; i++) {
					select.setLong(1, i);
					showRows(select.executeQuery());
				}
			}
	}

	public static void main(String[] arguments) throws SQLException {
		connection = connect();
		connection.setAutoCommit(false);
		section("first migration");
		execute("CREATE TYPE state AS ENUM ('open', 'done')");
		execute("CREATE TABLE accounts (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name varchar(80) NOT NULL)");
		execute("CREATE TABLE orders (account_id bigint REFERENCES accounts, id bigserial, total numeric(12, 2) NOT NULL CHECK (total >= 0), state state DEFAULT 'open',"
			+ " at timestamptz, tags text[], gross numeric(14, 2) GENERATED ALWAYS AS (total * 2) STORED, code uuid DEFAULT gen_random_uuid(), PRIMARY KEY (account_id, id))");
		execute("CREATE INDEX orders_at ON orders (at DESC)");
		execute("CREATE TABLE items (account_id bigint, order_id bigint, n int, what text, PRIMARY KEY (account_id, order_id, n), FOREIGN KEY (account_id, order_id) REFERENCES orders ON DELETE CASCADE)");
		execute("CREATE TABLE log (account_id bigint NOT NULL, day date, v text) PARTITION BY RANGE (day)");
		execute("CREATE TABLE log_2026 PARTITION OF log FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')");
		execute("CREATE FUNCTION total_of(bigint) RETURNS numeric LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(total) FROM orders WHERE account_id = $1); END'");
		execute("COMMENT ON COLUMN orders.total IS 'in euros'");
		execute("SELECT shardlet.distribute_tables('{accounts, orders, items, log}', 'tenants', '{id, account_id, account_id, account_id}')");
		connection.commit();
		metadata();
		batches();
		prepared();
		cursors();
		transactions();
		modes();
		section("second migration");
		execute("ALTER TABLE orders ADD COLUMN note varchar(100), ADD COLUMN paid boolean NOT NULL DEFAULT false");
		execute("CREATE INDEX ON orders (account_id, at)");
		execute("ALTER TABLE orders ADD CONSTRAINT orders_code UNIQUE (account_id, code)");
		execute("CREATE TABLE notes (account_id bigint REFERENCES accounts, id bigserial, PRIMARY KEY (account_id, id))");
		execute("INSERT INTO notes VALUES (1)");
		fails("INSERT INTO notes VALUES (12345)");
		fails("DELETE FROM accounts WHERE id = 1");
		execute("SELECT shardlet.distribute('notes', 'tenants', 'account_id')");
		fails("INSERT INTO notes VALUES (12345)");
		execute("DROP INDEX orders_at");
		execute("ALTER TABLE orders RENAME COLUMN at TO moment");
		execute("ALTER TABLE items ALTER COLUMN n TYPE bigint");
		execute("CREATE TABLE log_2027 PARTITION OF log FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')");
		connection.commit();
		run("INSERT INTO log VALUES (1, '2026-05-05', 'a'), (2, '2027-05-05', 'b')");
		run("SELECT * FROM log_2027");
		connection.commit();
		metadata();
		connection.close();
	}
}
