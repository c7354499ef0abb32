// Sequelize: migrations by Umzug, models with relations, bulk, upsert, transactions, describeTable.
const {Sequelize, DataTypes, Op, Transaction} = require('sequelize')
const {Umzug, SequelizeStorage} = require('umzug')
const {section, show, fails} = require('./show')

const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, null,
	{host: process.env.PGHOST, port: process.env.PGPORT, dialect: 'postgres', logging: false, define: {underscored: true}})
const query = sequelize.getQueryInterface()
const id = {type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true}
const key = {type: DataTypes.BIGINT, primaryKey: true, references: {model: 'tenants', key: 'id'}}
const times = {created_at: DataTypes.DATE, updated_at: DataTypes.DATE}

const migrations = [
	{name: '1-tables', up: async () => {
		await query.createTable('countries', {code: {type: DataTypes.STRING(2), primaryKey: true}, name: DataTypes.TEXT})
		await query.createTable('tenants', {id, name: {type: DataTypes.STRING, allowNull: false},
			country_code: {type: DataTypes.STRING(2), references: {model: 'countries', key: 'code'}}, ...times})
		await query.createTable('users', {tenant_id: {...key, onDelete: 'CASCADE'}, id, email: {type: DataTypes.STRING, allowNull: false},
			settings: {type: DataTypes.JSONB, defaultValue: {}}, labels: DataTypes.ARRAY(DataTypes.TEXT), role: {type: DataTypes.ENUM('user', 'admin'), defaultValue: 'user'}, ...times},
			{uniqueKeys: {users_email: {fields: ['tenant_id', 'email']}}})
		await query.addIndex('users', ['role'], {name: 'users_role'})
		await query.createTable('orders', {tenant_id: {...key, references: undefined}, id, user_id: {type: DataTypes.BIGINT, allowNull: false},
			total: DataTypes.INTEGER, date: DataTypes.DATEONLY, ...times})
		await query.addConstraint('orders', {type: 'check', fields: ['total'], name: 'orders_total', where: {total: {[Op.gte]: 0}}})
		await sequelize.query('ALTER TABLE orders ADD CONSTRAINT orders_user FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE')
		await sequelize.query("SELECT shardlet.make_reference('countries')")
		await sequelize.query("SELECT shardlet.distribute_tables('{tenants, users, orders}', 'tenants', '{id, tenant_id, tenant_id}')")
	}, down: async () => {
		for (const table of ['orders', 'users', 'tenants', 'countries'])
			await query.dropTable(table, {})
		await sequelize.query('DROP TYPE IF EXISTS enum_users_role')
	}},
	{name: '2-changes', up: async () => {
		await sequelize.transaction(async transaction => {
			await query.addColumn('users', 'nickname', DataTypes.STRING(50), {transaction})
			await query.addColumn('users', 'active', {type: DataTypes.BOOLEAN, allowNull: false, defaultValue: true}, {transaction})
			await query.addConstraint('users', {type: 'unique', fields: ['tenant_id', 'nickname'], name: 'users_nickname', transaction})
			await query.removeIndex('users', 'users_role', {transaction})
			await query.addIndex('users', [sequelize.fn('lower', sequelize.col('email'))], {name: 'users_lower', transaction})
			await query.renameColumn('orders', 'date', 'day', {transaction})
			await query.changeColumn('orders', 'total', {type: DataTypes.DECIMAL(12, 2), allowNull: false}, {transaction})
			await query.createTable('notes', {tenant_id: key, id, order_id: DataTypes.BIGINT, body: DataTypes.TEXT}, {transaction})
			await sequelize.query("SELECT shardlet.distribute('notes', 'tenants', 'tenant_id')", {transaction})
			await sequelize.query('ALTER TABLE notes ADD CONSTRAINT notes_order FOREIGN KEY (tenant_id, order_id) REFERENCES orders ON DELETE CASCADE', {transaction})
		})
		await query.addIndex('orders', ['day'], {name: 'orders_day', concurrently: true})
	}, down: async () => {
		await query.dropTable('notes', {})
		await query.removeIndex('orders', 'orders_day', {concurrently: true})
		await query.changeColumn('orders', 'total', {type: DataTypes.INTEGER, allowNull: true})
		await query.renameColumn('orders', 'day', 'date')
		await query.removeIndex('users', 'users_lower')
		await query.addIndex('users', ['role'], {name: 'users_role'})
		await query.removeConstraint('users', 'users_nickname')
		await query.removeColumn('users', 'active')
		await query.removeColumn('users', 'nickname')
	}},
]
const umzug = new Umzug({migrations, context: query, storage: new SequelizeStorage({sequelize}), logger: undefined})

async function reflect() {
	const tables = (await query.showAllTables()).sort()
	show(tables)
	for (const table of ['tenants', 'users', 'orders', 'notes'].filter(name => tables.includes(name))) {
		show(table, await query.describeTable(table), await query.getForeignKeyReferencesForTable(table))
		show((await query.showIndex(table)).map(({indkey, definition, name, unique, primary, fields}) => ({name, unique, primary, fields, definition})).sort((a, b) => a.name < b.name ? -1 : 1))
		show((await query.showConstraint(table)).sort((a, b) => a.constraintName < b.constraintName ? -1 : 1).map(({constraintName, constraintType, tableName}) => [constraintName, constraintType, tableName]))
	}
}

const Tenant = sequelize.define('tenant', {id, name: DataTypes.STRING, countryCode: DataTypes.STRING(2)})
const User = sequelize.define('user', {tenantId: {type: DataTypes.BIGINT, primaryKey: true}, id, email: DataTypes.STRING, settings: DataTypes.JSONB,
	labels: DataTypes.ARRAY(DataTypes.TEXT), role: DataTypes.ENUM('user', 'admin'), nickname: DataTypes.STRING, active: DataTypes.BOOLEAN})
const Order = sequelize.define('order', {tenantId: {type: DataTypes.BIGINT, primaryKey: true}, id, userId: DataTypes.BIGINT, total: DataTypes.DECIMAL(12, 2), day: DataTypes.DATEONLY})
Tenant.hasMany(User)
User.belongsTo(Tenant)
User.hasMany(Order, {foreignKey: 'userId', sourceKey: 'id', constraints: false})

async function main() {
	section('sequelize: migrations')
	await umzug.up({to: '1-tables'})
	await reflect()
	await umzug.down()
	await reflect()
	await umzug.up()
	await reflect()
	await umzug.down()
	await reflect()
	await umzug.up()
	show((await umzug.executed()).map(each => each.name))

	section('sequelize: create and relations')
	await query.bulkInsert('countries', ['de', 'fr', 'nz'].map(code => ({code, name: code.toUpperCase()})))
	for (let n = 0; n < 10; n++)
		await Tenant.create({name: 'tenant ' + n, countryCode: ['de', 'fr', 'nz'][n % 3],
			users: [0, 1, 2].map(m => ({email: 'u' + m, settings: {theme: m}, labels: ['a', 'l' + m], role: m ? 'user' : 'admin'}))}, {include: User})
	const users = await User.findAll({order: ['tenantId', 'email']})
	show(users.map(user => [user.tenantId, user.email, user.settings, user.role, user.active]))
	show((await Order.bulkCreate(users.map((user, n) => ({tenantId: user.tenantId, userId: user.id, total: n, day: '2026-01-02'})), {returning: true})).map(order => order.id))
	// Both columns: without the tenant's, the shards could not join.
	const on = {tenant_id: {[Op.eq]: sequelize.col('users.tenant_id')}, user_id: {[Op.eq]: sequelize.col('users.id')}}
	show((await Tenant.findAll({include: [{model: User, include: [{model: Order, on}]}], where: {id: {[Op.lte]: 3}}, order: ['id', [User, 'email', 'DESC']]}))
		.map(tenant => [tenant.id, tenant.users.map(user => [user.email, user.orders.map(order => order.total)])]))
	show((await User.findAndCountAll({where: {tenantId: 3, settings: {theme: 1}}})).count, await User.count({where: {email: {[Op.iLike]: 'U1'}}}),
		await User.count({where: {labels: {[Op.contains]: ['a']}}}), await Order.sum('total'), await Order.max('total', {where: {tenantId: 4}}))
	show((await Order.findAll({attributes: ['tenantId', [sequelize.fn('sum', sequelize.col('total')), 'sum']], group: 'tenantId', order: ['tenantId'], limit: 4, raw: true})))
	show((await User.findOrCreate({where: {tenantId: 1, email: 'u1'}, defaults: {role: 'admin'}}))[1], (await User.findOrCreate({where: {tenantId: 1, email: 'fresh'}}))[1])

	section('sequelize: changes')
	const user = await User.findOne({where: {tenantId: 5, email: 'u2'}})
	user.nickname = 'nick'
	await user.save()
	await user.reload()
	await user.update({settings: {theme: 77}})
	show(user.nickname, user.settings, user.active)
	show(await Order.update({total: sequelize.literal('total + 1')}, {where: {tenantId: 2}}), (await Order.update({day: '2026-03-04'}, {where: {total: {[Op.lt]: 5}}, returning: true}))[0])
	await (await Order.findOne({where: {tenantId: 3}, order: ['id']})).increment('total', {by: 10})
	show((await User.upsert({tenantId: 5, id: user.id, email: 'u2', nickname: 'upserted'}))[0].nickname)
	show((await User.bulkCreate([{tenantId: 5, email: 'u2', nickname: 'bulk'}, {tenantId: 6, email: 'new'}],
		{updateOnDuplicate: ['nickname'], conflictAttributes: ['tenantId', 'email']})).map(each => [each.email, each.nickname]))
	show((await User.bulkCreate([...Array(300).keys()].map(n => ({tenantId: n % 10 + 1, email: 'bulk' + n})), {ignoreDuplicates: true})).length)
	await (await Tenant.findByPk(7)).destroy()
	show(await User.destroy({where: {tenantId: 8, role: 'user'}}), await User.count(), await Order.count())

	section('sequelize: transactions and errors')
	await sequelize.transaction(async transaction => {
		await Tenant.create({id: 100, name: 'outer'}, {transaction})
		await sequelize.transaction({transaction}, async inner => {
			await Tenant.create({id: 101, name: 'inner'}, {transaction: inner})
			throw new Error('undo')
		}).catch(error => show(error.message))
		show((await User.findAll({where: {tenantId: 2}, order: ['id'], limit: 2, lock: transaction.LOCK.UPDATE, transaction})).length)
		show((await User.findAll({where: {tenantId: 2}, order: ['id'], limit: 2, lock: true, skipLocked: true})).length)
	})
	show((await Tenant.findAll({where: {id: {[Op.gte]: 100}}})).map(tenant => tenant.id))
	await fails(User.create({tenantId: 1, email: 'u1'}))
	await fails(User.create({tenantId: 4711, email: 'u1'}))
	await fails(Order.create({tenantId: 1, userId: 4711, total: 1}))
	await fails(Order.create({tenantId: 1, userId: 1, total: -1}))
	await fails(User.create({tenantId: 1}))
	await sequelize.transaction({isolationLevel: Transaction.ISOLATION_LEVELS.SERIALIZABLE}, transaction => User.count({transaction})).then(show)
	await sequelize.transaction({deferrable: Sequelize.Deferrable.SET_DEFERRED}, transaction => User.count({transaction})).then(show)
	await User.truncate({cascade: true, restartIdentity: true})
	show(await User.count(), (await User.create({tenantId: 1, email: 'first'})).id)
	await sequelize.close()
}

main().catch(error => { console.error(error); process.exit(1) })
